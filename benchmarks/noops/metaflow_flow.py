"""Seven no-op steps with Metaflow."""

from metaflow import FlowSpec, step


class SevenNoops(FlowSpec):
    @step
    def start(self):
        self.next(self.two)

    @step
    def two(self):
        self.next(self.three)

    @step
    def three(self):
        self.next(self.four)

    @step
    def four(self):
        self.next(self.five)

    @step
    def five(self):
        self.next(self.six)

    @step
    def six(self):
        self.next(self.end)

    @step
    def end(self):
        pass


if __name__ == "__main__":
    SevenNoops()
