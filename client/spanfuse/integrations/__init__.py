"""The Guard at the place where each library makes its calls: one module per library, which comes with its extra."""
