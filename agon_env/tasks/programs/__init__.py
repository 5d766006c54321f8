"""The kinds of short programming problem of the embedded set; `make_programs` draws from them."""
