"""The life of one pod on its node."""

import contextlib
import threading
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING, Any

from nightshift_testkit.cluster import events, quantities, volumes
from nightshift_testkit.cluster.kinds import POD, Json
from nightshift_testkit.cluster.logs import Log
from nightshift_testkit.cluster.operations import Operations, condition
from nightshift_testkit.cluster.runtimes import Container, ContainerProcess, Ended, Mount, StartError
from nightshift_testkit.cluster.store import ResourceStore, now
from nightshift_testkit.cluster.volumes import ConfigError

if TYPE_CHECKING:
    from nightshift_testkit.cluster.kubelet import Settings

MESSAGE_LINES, MESSAGE_BYTES, FILE_BYTES = 80, 2048, 4096  # limits of a termination message
START_ERROR = 128
LONGEST = 300.0  # seconds between two restarts
DEADLINE = "Pod was active on the node longer than the specified deadline"


class StoppedError(Exception):
    """The pod is to end."""


class PodRunner(threading.Thread):
    """Runs a pod's containers and writes down how they fare."""

    def __init__(self, store: ResourceStore, operations: Operations, settings: "Settings", pod: Json) -> None:
        super().__init__(name=pod["metadata"]["name"], daemon=True)
        self.node = pod["spec"]["nodeName"]
        self.logs: dict[str, Log] = {}
        self._store, self._operations, self._settings, self._pod = store, operations, settings, pod
        self._root = settings.folder / pod["metadata"]["uid"]
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._lost = False
        self._deadline: Json = {}
        self._timers: list[threading.Timer] = []
        self._processes: dict[str, ContainerProcess] = {}
        self._statuses = {item["name"]: _waiting(item, "PodInitializing") for item in self._all()}
        self._folders: dict[str, Path] = {}

    def _all(self) -> list[Json]:
        return [*self._pod["spec"].get("initContainers", []), *self._pod["spec"]["containers"]]

    def run(self) -> None:
        try:
            self._limit()
            self._publish("Pending", startTime=now())
            self._mount()
            if self._prepared():
                self._main()
            self._finish()
        except StoppedError:
            self._finish()
        finally:
            for timer in self._timers:
                timer.cancel()
            for log in self.logs.values():
                log.end()
            # the kubelet's turn: a deleted pod goes when nothing of it runs
            with self._store.changed:
                self._store.changed.notify_all()

    def end(self, grace: float) -> None:
        """Ask the containers to end, and after the seconds of grace make them."""
        with self._lock:
            first = not self._ending.is_set()
            self._ending.set()
            if first and grace:
                self.signal(SIGTERM)
            if grace:
                if first:
                    self._after(grace, lambda: self.signal(SIGKILL))
            else:
                self.signal(SIGKILL)

    def lose(self) -> None:
        """End at once, and tell nobody."""
        self._lost = True
        self.end(0)

    def signal(self, number: int) -> None:
        with self._lock:
            for process in self._processes.values():
                process.signal(number)

    def waiting(self, container: str) -> str:
        """Why a container has not started."""
        state = self._statuses.get(container, {}).get("state", {})
        return str(state.get("waiting", {}).get("reason", "ContainerCreating"))

    def _after(self, seconds: float, do: Any) -> None:
        timer = threading.Timer(seconds, do)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _limit(self) -> None:
        if seconds := self._pod["spec"].get("activeDeadlineSeconds"):
            self._after(seconds, self._too_long)

    def _too_long(self) -> None:
        self._deadline = {"reason": "DeadlineExceeded", "message": DEADLINE}
        self.end(self._pod["spec"]["terminationGracePeriodSeconds"])

    def _mount(self) -> None:
        for item in self._pod["spec"]["containers"]:
            self._set(item, _waiting(item, "ContainerCreating"))
        self._publish("Pending")
        while True:
            try:
                self._folders = volumes.folders(self._store, self._pod, self._root, self._settings.claims)
                break
            except ConfigError as error:
                self._say("FailedMount", f"MountVolume.SetUp failed: {error}")
                self._wait()
        for volume in self._pod["spec"].get("volumes", []):
            volumes.give(self._store, self._pod, volume, self._folders[volume["name"]])

    def _wait(self, seconds: float | None = None) -> None:
        if self._ending.wait(self._settings.again if seconds is None else seconds):
            raise StoppedError

    def _prepared(self) -> bool:
        """Run the init containers one after the other, as far as they succeed."""
        return all(self._lived(item) == 0 for item in self._pod["spec"].get("initContainers", []))

    def _main(self) -> None:
        threads = [threading.Thread(target=self._live, args=[item]) for item in self._pod["spec"]["containers"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _live(self, item: Json) -> None:
        with contextlib.suppress(StoppedError):
            self._lived(item)

    def _lived(self, item: Json) -> int:
        """Run a container, and again as the pod's policy says; return its last exit code."""
        policy, seconds = self._pod["spec"]["restartPolicy"], self._settings.again
        while True:
            code = self._once(item)
            again = policy == "Always" or (policy == "OnFailure" and code)
            if self._ending.is_set() or not again or (policy == "Always" and code == 0 and not self._is_main(item)):
                return code
            self._set(item, _restarting(item, self._statuses[item["name"]]))
            self._wait(seconds)
            seconds = min(2 * seconds, LONGEST)

    def _is_main(self, item: Json) -> bool:
        return item in self._pod["spec"]["containers"]

    def _once(self, item: Json) -> int:
        message = self._root / "messages" / item["name"]
        message.parent.mkdir(parents=True, exist_ok=True)
        message.write_bytes(b"")
        message.chmod(0o666)
        container = self._configured(item, message)
        log = self.logs[item["name"]] = Log()
        began = now()
        try:
            with self._lock:
                if self._ending.is_set():
                    raise StoppedError
                process = self._processes[item["name"]] = self._settings.runtime.start(container)
        except StartError as error:
            log.end()
            self._set(
                item, _terminated(self._statuses[item["name"]], began, Ended(START_ERROR), str(error), "StartError")
            )
            return START_ERROR
        self._set(item, _running(self._statuses[item["name"]], began))
        ended = self._ended(item, process, log)
        text = _message(item, message, log, ended)
        self._set(item, _terminated(self._statuses[item["name"]], began, ended, text))
        return ended.code

    def _ended(self, item: Json, process: ContainerProcess, log: Log) -> Ended:
        pump = threading.Thread(target=lambda: [log.write(line) for line in process.output], daemon=True)
        pump.start()
        ended = process.wait()
        pump.join()
        process.output.close()
        with self._lock:
            del self._processes[item["name"]]
        log.end()
        return ended

    def _configured(self, item: Json, message: Path) -> Container:
        """What the runtime is to start, as soon as all that it needs is there."""
        pulls = 0
        while True:
            try:
                user = self._settings.runtime.user(item["image"])
                if user is None:
                    pulls += 1
                    self._unpulled(item, pulls)
                else:
                    return self._container(item, message, user)
            except ConfigError as error:
                self._set(item, _waiting(item, "CreateContainerConfigError", str(error)))
                self._say("Failed", f"Error: {error}")
            self._wait()

    def _unpulled(self, item: Json, pulls: int) -> None:
        problem = f'failed to pull and unpack image "{item["image"]}": not found'
        never = item["imagePullPolicy"] == "Never"
        reason = "ErrImageNeverPull" if never else "ErrImagePull" if pulls == 1 else "ImagePullBackOff"
        if reason == "ImagePullBackOff":
            problem = f'Back-off pulling image "{item["image"]}": ErrImagePull: {problem}'
        self._set(item, _waiting(item, reason, problem))
        self._say("Failed", f"Error: {reason}")

    def _container(self, item: Json, message: Path, user: str) -> Container:
        pod = self._pod["spec"].get("securityContext", {})
        context = pod | item.get("securityContext", {})
        if context.get("runAsNonRoot"):
            _refuse_root(context.get("runAsUser"), user)
        access = self._settings.access
        environment = volumes.environment(self._store, self._pod, item) | (access.variables if access else {})
        limits = item.get("resources", {}).get("limits", {})
        name = f"{self._pod['metadata']['uid']}-{item['name']}-{self._statuses[item['name']]['restartCount']}"
        group = context.get("runAsGroup")
        return Container(
            name=name,
            image=item["image"],
            command=[volumes.expanded(word, environment) for word in item.get("command", [])],
            args=[volumes.expanded(word, environment) for word in item.get("args", [])],
            environment=environment,
            mounts=[*self._mounts(item), Mount(str(message), item["terminationMessagePath"])],
            folder=item.get("workingDir"),
            # a group of one's own leaves the image's user
            user=context.get("runAsUser", _number(user) if group is not None else None),
            group=group,
            groups=[*pod.get("supplementalGroups", []), *([pod["fsGroup"]] if "fsGroup" in pod else [])],
            memory=int(quantities.number(limits["memory"])) if "memory" in limits else None,
            cpus=float(quantities.number(limits["cpu"])) if "cpu" in limits else None,
            capabilities=context.get("capabilities", {}),
            escalation=context.get("allowPrivilegeEscalation", True),
            read_only=context.get("readOnlyRootFilesystem", False),
        )

    def _mounts(self, item: Json) -> list[Mount]:
        access = self._settings.access
        mounts = access.mounts(self._store, self._pod, self._root / "access") if access else []
        for mount in item.get("volumeMounts", []):
            source = self._folders[mount["name"]] / mount.get("subPath", "")
            if not source.exists():
                source.mkdir(parents=True)
                source.chmod(volumes.OPEN)
            mounts.append(Mount(str(source), mount["mountPath"], bool(mount.get("readOnly"))))
        return mounts

    def _say(self, reason: str, message: str) -> None:
        events.record(self._store, self._pod, reason, message, "Warning")

    def _set(self, item: Json, status: Json) -> None:
        with self._lock:
            self._statuses[item["name"]] = status
        self._publish(self._phase())

    def _phase(self) -> str:
        states = [self._statuses[item["name"]] for item in self._pod["spec"]["containers"]]
        # one that ended last decides in _finish, so that the phase comes with all states
        return "Running" if any("running" in s["state"] or "terminated" in s["state"] for s in states) else "Pending"

    def _finish(self) -> None:
        if self._lost:
            return
        ended = [self._statuses[item["name"]]["state"].get("terminated") for item in self._all()]
        done = not self._ending.is_set() and all(state and state["exitCode"] == 0 for state in ended)
        started = any(ended)
        if self._deadline or started:
            self._publish("Succeeded" if done else "Failed", **self._deadline)

    def _publish(self, phase: str, **more: str) -> None:
        if self._lost:
            return
        self._operations.change(
            POD, self.name, lambda pod: self._edit(pod, phase, more), self._pod["metadata"]["namespace"]
        )

    def _edit(self, pod: Json, phase: str, more: dict[str, str]) -> None:
        if pod["metadata"]["uid"] != self._pod["metadata"]["uid"]:
            return
        status = pod["status"]
        status |= {"phase": phase, "hostIP": "127.0.0.1", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]} | more
        for key, part in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
            if key in pod["spec"]:
                status[part] = [self._statuses[item["name"]] for item in pod["spec"][key]]
        ready = all(item["ready"] for item in status["containerStatuses"])
        inits = status.get("initContainerStatuses", [])
        initialized = all(item["state"].get("terminated", {}).get("exitCode") == 0 for item in inits)
        why = "PodCompleted" if phase == "Succeeded" else "" if ready else "ContainersNotReady"
        condition(pod, "Initialized", str(initialized), "" if initialized else "ContainersNotInitialized")
        condition(pod, "ContainersReady", str(ready), why)
        condition(pod, "Ready", str(ready), why)


def _refuse_root(uid: int | None, user: str) -> None:
    if uid == 0:
        raise ConfigError("container's runAsUser breaks non-root policy")
    if uid is None and _number(user) == 0:
        raise ConfigError("container has runAsNonRoot and image will run as root")
    if uid is None and _number(user) is None:
        reason = f"image has non-numeric user ({user}), cannot verify user is non-root"
        raise ConfigError(f"container has runAsNonRoot and {reason}")


def _number(user: str) -> int | None:
    """The number of an image's user, root when there is none; None for a name."""
    name = user.partition(":")[0] or "0"
    return int(name) if name.isdigit() else 0 if name == "root" else None


def _status(item: Json, state: Json) -> Json:
    plain = {"name": item["name"], "image": item["image"], "imageID": "", "ready": False, "restartCount": 0}
    return plain | {"started": False, "lastState": {}, "state": state}


def _waiting(item: Json, reason: str, message: str = "") -> Json:
    return _status(item, {"waiting": {"reason": reason} | ({"message": message} if message else {})})


def _running(status: Json, began: str) -> Json:
    return status | {"ready": True, "started": True, "state": {"running": {"startedAt": began}}}


def _terminated(status: Json, began: str, ended: Ended, message: str = "", reason: str = "") -> Json:
    plain = "Completed" if ended.code == 0 else "Error"
    state = {
        "exitCode": ended.code,
        "reason": reason or ("OOMKilled" if ended.out_of_memory else plain),
        "startedAt": began,
        "finishedAt": now(),
    } | ({"message": message} if message else {})
    return status | {"ready": False, "started": False, "state": {"terminated": state}}


def _restarting(item: Json, status: Json) -> Json:
    again = {"lastState": status["state"], "restartCount": status["restartCount"] + 1}
    return _waiting(item, "CrashLoopBackOff", "back-off restarting failed container") | again


def _message(item: Json, path: Path, log: Log, ended: Ended) -> str:
    text = path.read_bytes()[:FILE_BYTES].decode(errors="replace") if path.exists() else ""
    if not text and ended.code and item["terminationMessagePolicy"] == "FallbackToLogsOnError":
        return log.last(MESSAGE_LINES, MESSAGE_BYTES)
    return text
