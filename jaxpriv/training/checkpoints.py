"""Checkpoints by Orbax: the last two states of a run, each whole or not there."""

from pathlib import Path

import jax


class Checkpoints:
    """The checkpoints in a folder, made if absent."""

    def __init__(self, folder):
        # a second of import that those who keep no checkpoints need not wait for
        import orbax.checkpoint as ocp

        self._ocp = ocp
        self.folder = Path(folder).absolute()
        self._manager = ocp.CheckpointManager(
            self.folder,
            options=ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False),
        )

    def last(self):
        """The step of the latest checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, step, state):
        """Write the state after `step` steps; it counts only once it is whole. Raises: OSError
        where it can't be written.
        """
        self._manager.save(step, args=self._ocp.args.StandardSave(state), force=True)

    def restore(self, step, like):
        """The state after `step` steps, on the devices of `like`, a state of the same structure.

        Raises: ValueError where it can't be read or is of another model.
        """
        abstract = jax.tree.map(self._ocp.utils.to_shape_dtype_struct, like)
        try:
            return self._manager.restore(step, args=self._ocp.args.StandardRestore(abstract))
        except Exception as error:  # Orbax, TensorStore and the file system all have their own
            reason = (
                str(error).strip().splitlines()[0][:200]
                if str(error).strip()
                else type(error).__name__
            )
            raise ValueError(
                f"{self.folder / str(step)} can't be read ({reason}); remove that folder to go on "
                "from the checkpoint before it, which repeats the same steps"
            ) from None

    def close(self):
        self._manager.close()
