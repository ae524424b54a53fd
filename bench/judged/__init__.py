"""Parts of `python -m bench judge`: how well rewards separate runs, how fast, and what models are worth."""
