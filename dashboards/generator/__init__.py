"""The dashboards as code: `make dashboards` writes the JSON beside this package anew, a test compares them."""
