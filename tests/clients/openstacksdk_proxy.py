def tests(server):
    import unittest
    return unittest.TestSuite()
