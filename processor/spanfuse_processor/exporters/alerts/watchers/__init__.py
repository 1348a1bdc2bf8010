"""What no rule sees, since it takes more than a session or a scope, or longer: each a state machine that knows no clock.

Each has `snapshot` and `restore`, so that a restart tells nobody twice, and nothing is learned twice.
"""
