"""The Hugging Face Hub: a registered version goes out, pretrained weights and tokenizers come in.

Its client is imported on use. It asks HF_ENDPOINT, and the storage that this names, with the token in HF_TOKEN.
"""
