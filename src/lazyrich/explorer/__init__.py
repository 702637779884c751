"""The web explorer: `lazyrich explore`.

A state (`state`: all that a user can choose) becomes a script (`script`: calls of the public API, run and kept), the
script a view of its tasks one after the other (`view`, `stages`), captions and a phase picture (`captions`, `phase`).
These become messages (`wire`) when there is time for them (`scheduling`, in the threads of `pools`), and `server`,
which listens as `listening` says, sends them to the page (`page/`), which draws. `export` is what one takes away: the
script, its data, a picture. `uploads` reads files; `stories` and `theorems` hold what the page tells.
`recording` computes ahead what a page shows, and `one_page` puts it and the page into one file, for `lazyrich export`.
Nothing is kept between two requests.
"""
