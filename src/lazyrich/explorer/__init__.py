"""The web explorer: `lazyrich explore`.

A state (`state`: all that a user can choose) becomes a script (`script`: calls of the public API, run and kept), the
script a view, a story, a phase picture (`view`, `story`, `phase`), these become messages (`frames`), and `server`
sends them to the page (`page/`), which draws. Nothing is kept between two requests.
"""
