"""What the conformance suite and the client suites share.

environment: the private Python environment.
postgres:    a throwaway PostgreSQL cluster.
servers:     starting and stopping the server under test.
reference:   the reference itself as a server, to prove the suites against.
report:      the last line all runners print.
"""
