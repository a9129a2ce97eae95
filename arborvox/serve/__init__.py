"""`arborvox serve`: models behind an API that existing clients speak, and a page to use them."""
