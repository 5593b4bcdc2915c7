from nightshift import registry, storage
from nightshift.contracts.access_log import OpenedFile
from nightshift.registry import access_log


def test_who_opened_a_person_s_files_is_found_without_those_of_others(tmp_path):
    ann, bob = OpenedFile(subject="ann", sha256="1" * 64), OpenedFile(subject="bob", sha256="2" * 64)
    for purpose, files in (("first", [ann, bob]), ("second", [bob]), ("third", [ann, ann])):
        access_log.log_opened(str(tmp_path), "scans", purpose, files)
    seen = access_log.find_accesses(str(tmp_path), "scans", "ann")
    assert [(record.purpose, record.files) for record in seen.records] == [("first", [ann]), ("third", [ann, ann])]
    assert {record.by for record in seen.records} == {registry.user()}
    assert access_log.find_accesses(str(tmp_path), "another", "ann").records == []


def test_what_is_logged_is_never_written_again(tmp_path):
    for _ in range(2):
        access_log.log_opened(str(tmp_path), "scans", "a", [])
    assert len(storage.names(str(tmp_path / "scans" / "accesses"))) == 2
