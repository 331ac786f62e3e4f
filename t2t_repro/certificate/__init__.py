"""What a run or an export was made of, by what, and how it translates, so that it can be checked.

Nothing is imported here: t2t-trainer and t2t-show load a part each.
"""
