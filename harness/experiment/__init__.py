"""Experiments: groups of run sets and their plans, from the request to the last repetition.

    request -> expand -> prepare -> create -> complete -> finish

`expand` writes nothing and refuses what cannot be asked or run; `prepare` has data and autotuning, or the reason why
not; `create` makes the folders; `complete` is the only loop, for new folders and for interrupted ones.
"""
