"""Publishing: tokenizer, shards and models in repositories of the Hugging Face Hub."""
