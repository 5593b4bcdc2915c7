"""`make infra-golden`: write the golden files anew, for a person to read what changed before it is committed."""

from tests.infra.checks import CLOUDS
from tests.infra.golden import pages


def main() -> None:
    """Write what differs, remove what nothing makes any more, and name both."""
    rendered = {name: page() for name, page in pages.of_cluster().items()}
    for cloud in CLOUDS:
        rendered |= pages.of_cloud(cloud)
    gone = [path for path in pages.FOLDER.glob("*.txt") if path.stem not in rendered]
    for path in gone:
        path.unlink()
    changed = pages.write(rendered)
    print(f"infra-golden: {len(rendered)} files; written: {', '.join(changed) or 'none'}; removed: {len(gone)}")


if __name__ == "__main__":
    main()
