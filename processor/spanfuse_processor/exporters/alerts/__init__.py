"""Tells people what happens: once until it is over, and apart from the detection.

`intake` makes of what happens (`source.Source`) what people are told (`signals`), and `watch` of what no rule sees →
`book.Book` decides when → `routes` says whom → `delivery` sends it, by one of `receivers`. `service.AlertService` runs it all.
"""
