"""Images and reports of requests: either may be absent."""

from functools import partial

from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.items.tokens import Tokenizer
from nightshift.serving.items.schema import ItemSchema
from nightshift.tasks.images.items import build_image_field
from nightshift.tasks.texts.items import build_text_field, encode_text
from nightshift_image_text import pixels
from nightshift_image_text.preprocessing import ImageTextPreprocessing

IMAGE, REPORT = "image", "report"  # columns of the lake
PIXELS, TOKENS = "pixels", "tokens"  # inputs of the graphs


def items(model: ModelPackage, uri: str) -> ItemSchema:
    """Return what is said of the images and reports of a package that lies at a URI.

    Raises:
        UserError: when it is a model of another task, or its files are not those that its manifest names.
    """
    preprocessing = model.preprocessing_as(ImageTextPreprocessing)
    tokenizer = Tokenizer(read_tokenizer(uri, model), preprocessing.vocabulary, preprocessing.pad)
    encode = partial(encode_text, tokenizer, preprocessing.length)
    return ItemSchema(
        preprocessing.classes,
        (
            build_image_field(IMAGE, preprocessing, PIXELS, pixels.prepare),
            build_text_field(REPORT, preprocessing.limit, encode, TOKENS),
        ),
        model.decision.thresholds,
        is_partial=bool(model.signature.graphs),
        known_by=PIXELS,
    )
