"""Transactional ids: which producer has each, its open transaction, and how it ends. Knows no bytes of messages.

    state        one id in memory
    store        all ids on disk
    ids          all ids in memory: who may use which, and which are forgotten
    room         what open transactions hold, and the most that they may, also those of one caller
    transactions begins, stages and ends the transactions of all ids

The records of a transaction are staged in a journal (topic/transactions) and published when it commits.
"""
