"""From encoded speech to text: searches as free functions over batches, and what drives them."""
