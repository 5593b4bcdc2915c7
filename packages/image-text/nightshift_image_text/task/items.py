"""Images and reports of requests: either may be absent."""

from functools import partial

from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.items.images import Pixels, Rules
from nightshift.items.tokens import Tokenizer
from nightshift.serving.items.schema import ItemError, ItemSchema
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
            build_image_field(IMAGE, preprocessing, PIXELS, _prepare),
            build_text_field(REPORT, preprocessing.limit, encode, TOKENS),
        ),
        model.decision.thresholds,
        is_partial=bool(model.signature.graphs),
        known_by=PIXELS,
    )


def _prepare(content: bytes, rules: Rules) -> Pixels:
    # requests are logged, and a DICOM file may say whose it is
    if pixels.is_dicom(content):
        raise ItemError("a DICOM file", "a PNG or JPEG file; the source dicom:// reads DICOM files, de-identified")
    return pixels.prepare(content, rules)
