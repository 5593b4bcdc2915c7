"""Made-up headers: identifiers in public elements, nested sequences, private tags, overlays and documents."""

from copy import deepcopy

import numpy as np
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from nightshift_image_text.deidentification.corpus.identities import Identity

SIDE = 8  # pixels
ROOT = "1.2.826.0.1.3680043.10"


def write_header(rng: np.random.Generator, identity: Identity) -> Dataset:
    """Return a data set of one small image with the identifiers of a patient all over."""
    header = Dataset()
    _add_study(rng, header, identity)
    _add_persons(header, identity)
    _add_sequences(header, identity)
    _add_private(header, identity)
    _add_image(rng, header, identity)
    return header


def list_secrets(identity: Identity) -> list[str]:
    """Return what must not be found in a header any more: words and numbers, dates as DICOM writes them."""
    names = [identity.forename, identity.family, identity.town, *identity.physician, *identity.reader]
    days = [f"{day:%Y%m%d}" for day in (identity.born, identity.studied)]
    return [
        *names,
        *days,
        identity.record,
        identity.accession,
        identity.hospital,
        identity.street,
        identity.phone,
        ROOT,
    ]


def _add_study(rng: np.random.Generator, header: Dataset, identity: Identity) -> None:
    day = f"{identity.studied:%Y%m%d}"
    header.StudyDate = header.SeriesDate = header.AcquisitionDate = header.ContentDate = header.InstanceCreationDate = (
        day
    )
    header.AcquisitionDateTime, header.StudyTime = f"{day}101500", "101500"
    header.StudyInstanceUID, header.SeriesInstanceUID, header.SOPInstanceUID, header.FrameOfReferenceUID = (
        f"{ROOT}.{rng.integers(1, 10**12)}" for _ in range(4)
    )
    header.SOPClassUID, header.Modality, header.Manufacturer = CTImageStorage, "CT", "Acme"
    header.AccessionNumber, header.StudyID = identity.accession, identity.accession[:16]
    header.StudyDescription = f"CT chest {identity.family}"
    header.SeriesDescription, header.ProtocolName = f"Axial, {identity.forename}", f"{identity.hospital} chest"
    header.file_meta = FileMetaDataset()
    header.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    header.file_meta.MediaStorageSOPClassUID = CTImageStorage
    header.file_meta.MediaStorageSOPInstanceUID = header.SOPInstanceUID
    header.file_meta.SourceApplicationEntityTitle = identity.family.upper()[:16]


def _add_persons(header: Dataset, identity: Identity) -> None:
    header.PatientName, header.PatientID = f"{identity.family}^{identity.forename}", identity.record
    header.PatientBirthDate, header.PatientSex = f"{identity.born:%Y%m%d}", identity.sex
    header.PatientAge = f"{identity.age:03}Y"
    header.PatientAddress, header.PatientTelephoneNumbers = identity.street, identity.phone
    header.OtherPatientIDs, header.EthnicGroup = [identity.record, f"X{identity.record}"], "unknown"
    header.ReferringPhysicianName = "^".join(reversed(identity.physician))
    header.NameOfPhysiciansReadingStudy = "^".join(reversed(identity.reader))
    header.OperatorsName = " ".join(identity.reader)
    header.InstitutionName, header.StationName = identity.hospital, f"CT-{identity.town}"[:16]
    header.InstitutionAddress = f"{identity.street}, {identity.town}"
    header.PatientComments = f"{identity.forename} {identity.family}, call {identity.phone}"
    header.ImageComments = f"MRN {identity.record}"
    header.AdditionalPatientHistory = f"Seen by Dr. {identity.physician[1]} at {identity.hospital}"


def _add_sequences(header: Dataset, identity: Identity) -> None:
    person, inner, request = Dataset(), Dataset(), Dataset()
    person.PersonAddress, person.InstitutionName = identity.street, identity.hospital
    inner.PatientID, inner.PatientName = identity.record, f"{identity.family}^{identity.forename}"
    inner.add_new((0x0011, 0x0010), "LO", "ACME")
    inner.add_new((0x0011, 0x1001), "LO", f"{identity.forename} {identity.record}")
    person.ReferencedPatientSequence = [inner]
    request.RequestedProcedureDescription = f"for {identity.family}"
    request.RequestingPhysician = "^".join(reversed(identity.physician))
    header.ReferringPhysicianIdentificationSequence, header.RequestAttributesSequence = [person], [request]
    header.OtherPatientIDsSequence = [deepcopy(inner)]
    # a sequence that is kept, with items that must not be
    header.SharedFunctionalGroupsSequence = [deepcopy(inner), deepcopy(request)]


def _add_private(header: Dataset, identity: Identity) -> None:
    block = header.private_block(0x0009, "ACME", create=True)
    block.add_new(0x01, "LO", f"{identity.family}, {identity.forename}")
    block.add_new(0x02, "UN", f"{identity.record}|{identity.born:%Y%m%d}".encode())
    item = Dataset()
    item.PatientName = f"{identity.family}^{identity.forename}"
    block.add_new(0x03, "SQ", [item])


def _add_image(rng: np.random.Generator, header: Dataset, identity: Identity) -> None:
    header.Rows = header.Columns = SIDE
    header.BitsAllocated, header.BitsStored, header.HighBit, header.PixelRepresentation = 8, 8, 7, 0
    header.SamplesPerPixel, header.PhotometricInterpretation = 1, "MONOCHROME2"
    header.PixelData = rng.integers(0, 255, SIDE * SIDE, dtype=np.uint8).tobytes()
    header.add_new((0x6000, 0x0022), "LO", f"{identity.forename} {identity.family}")
    header.add_new((0x6000, 0x3000), "OW", f"{identity.record}{' ' * (len(identity.record) % 2)}".encode())
    icon = Dataset()
    icon.Rows = icon.Columns = SIDE
    icon.PixelData = f"{identity.family:<{SIDE * SIDE}}".encode()
    header.IconImageSequence = [icon]
    header.EncapsulatedDocument = f"%PDF {identity.forename} {identity.family} {identity.record:<20}".encode()
    # tags that promise something else
    header.ImageType = ["ORIGINAL", "PRIMARY", identity.family.upper()]
    header.ManufacturerModelName = f"{identity.hospital}"
