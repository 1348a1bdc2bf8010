"""`spanfuse proxy`: a reverse proxy for OpenAI's and Anthropic's APIs that asks a Guard, for agents that cannot be changed.

Read `handler.py` first: the way of a request. `routes` says whose API a path is, `whose` on whose behalf it comes;
`upstream` asks the provider, `exchange` passes its answer on, `answers` reads along, `refusals` is what the client gets
instead.
"""
