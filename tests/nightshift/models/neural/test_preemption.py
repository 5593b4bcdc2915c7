"""What clouds announce, from a metadata server on this machine."""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from nightshift.models.neural import preemption
from nightshift.runtime.errors import PreemptedError, UserError
from nightshift_testkit.processes import wait_until


class Metadata(BaseHTTPRequestHandler):
    """AWS's and Google's, as far as they are asked."""

    ends, broken, requests = False, False, 0

    def do_PUT(self):
        assert int(self.headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
        self.answer(200 if self.path == "/latest/api/token" else 404, "secret")

    def do_GET(self):
        type(self).requests += 1
        if self.broken:
            self.answer(503, "")
        elif self.path == "/computeMetadata/v1/instance/preempted" and self.headers["Metadata-Flavor"] == "Google":
            self.answer(200, "TRUE" if self.ends else "FALSE")
        elif self.headers["X-aws-ec2-metadata-token"] != "secret":
            self.answer(401, "")
        elif self.ends and self.path == "/latest/meta-data/spot/instance-action":
            self.answer(200, json.dumps({"action": "terminate", "time": "2026-11-22T08:22:00Z"}))
        else:
            self.answer(404, "")

    def answer(self, status, content):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def metadata():
    class Fresh(Metadata):
        pass

    with HTTPServer(("127.0.0.1", 0), Fresh) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Fresh, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def taken():
    """The SIGTERMs that arrive outside a training, which end nothing here."""
    signals = []
    before = signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    yield signals
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_spot_notice_becomes_sigterm_and_not_before(metadata, cloud):
    server, address = metadata
    with preemption.heed_sigterm() as notice:
        server.broken = True
        preemption.watch({"NIGHTSHIFT_SPOT": f"{cloud}={address}"}, seconds=0.01)
        wait_until(lambda: server.requests > 2, "the broken server was asked")
        server.broken = False
        wait_until(lambda: server.requests > 20, "the server was asked")
        assert not notice.received

        server.ends = True
        wait_until(lambda: notice.received, "the notice is taken")


@pytest.mark.parametrize(("cloud", "is_preempted"), [("aws", preemption.aws), ("gcp", preemption.gcp)])
def test_each_cloud_is_asked_in_its_own_way(metadata, cloud, is_preempted):
    server, address = metadata
    assert not is_preempted(address)
    server.ends = True
    assert is_preempted(address)


def test_another_cloud_is_refused_with_those_that_are_known():
    with pytest.raises(UserError, match=r"NIGHTSHIFT_SPOT is 'azure'; allowed: aws, gcp"):
        preemption.watch({"NIGHTSHIFT_SPOT": "azure"})


def test_the_launcher_is_told_that_a_checkpoint_was_saved(tmp_path):
    error = preemption.report_saved("step 3 is saved", {preemption.SAVED: str(tmp_path / "saved")})

    assert (str(error), (tmp_path / "saved").exists()) == ("step 3 is saved", True)


@pytest.mark.slow
def test_sigterm_that_comes_too_late_for_a_checkpoint_ends_the_process_after_the_training():
    script = """if True:
        import os, signal
        from nightshift.models.neural import preemption
        with preemption.heed_sigterm() as notice:
            os.kill(os.getpid(), signal.SIGTERM)
            print("given", notice.received, flush=True)
        print("the next candidate", flush=True)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)

    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "given True\n")


def test_a_notice_that_was_heeded_is_not_given_again(taken):
    with pytest.raises(PreemptedError), preemption.heed_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
        raise PreemptedError

    assert taken == []


def test_after_the_training_sigterm_is_handled_as_before(taken):
    with preemption.heed_sigterm() as notice:
        pass
    os.kill(os.getpid(), signal.SIGTERM)

    assert (notice.received, taken) == (False, [signal.SIGTERM])
