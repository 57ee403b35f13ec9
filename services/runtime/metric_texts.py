"""What `/metrics` says of each number: names as the machines and services give them, without `baton_` and `_total`."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # every process
    "epoch": "Number of this life; grows with each life of the process's name",
    "quiescent": "1 while nothing of any request is left here",
    "events": "Events that the machine has taken",
    "busy_seconds": "Time that the machine has spent in turns",
    "turn_seconds": "How long each turn took, by the event that it took: the machine's decision and what it started",
    "frames_sent": "Frames handed to control links",
    "frames_received": "Frames taken from control links",
    "frames_refused": "Frames of strangers or of no known shape",
    "links_full": "Frames lost because a link's queue was at its bound",
    "links_unroutable": "Frames lost because whoever had dialed was gone",
    "links_unopened": "Addresses that could not be dialed",
    "connections_refused": "Connections without a key of the deployment",
    # router
    "streams": "Choices of accepted requests that have not ended",
    "legs": "Parts of choices that wait for, or are with, an executor",
    "legs_placed": "Of those, the ones that an executor has",
    "executors_linked": "Executors that this router has a session with",
    "accepted": "Requests accepted",
    "ended_ok": "Choices that ended as asked",
    "records_of_old_attempts": "Token records dropped because their attempt was over",
    "output_tokens": "Tokens given to clients",
    # scheduler
    "queued": "Attempts that wait for a place",
    "prefix_waiting": "Of those, the ones that wait for a prefix that is being computed",
    "prefix_waits_begun": "Attempts that have begun to wait for a prefix",
    "prefix_wait_tokens_saved": "Prompt tokens that waiters found computed and would else have computed again",
    "prefix_waits_left": "Waits for a prefix that ended with their attempt",
    "handoffs": "Prompts that wait for a decode executor",
    "placed": "Attempts that executors have",
    "placements": "Attempts given to executors",
    "executors": "Executors that are known",
    "directory_blocks": "Blocks in the prefix directory",
    # executor: memory
    "blocks": "KV blocks",
    "blocks_free": "KV blocks that nothing holds, cached ones included",
    "blocks_cached": "KV blocks that the prefix index can find",
    "blocks_granted": "KV blocks granted to the scheduler and not yet spent",
    "slots_used": "Sequence slots in use",
    "slots_granted": "Sequence slots granted to the scheduler and not yet spent",
    "attempts": "Attempts here, in whatever state",
    "sequences_held": "Sequences here, in whatever state",
    "sequences_running": "Sequences in the batch",
    "sequences_waiting": "Sequences in the ready queue",
    "draining": "1 while nothing new is taken",
    "preempted": "Sequences whose memory went to older ones",
    "refused_after_placement": "Placements that did not fit: a bug, each of them",
    # executor: steps
    "steps_in_flight": "Steps launched and not done",
    "steps_launched": "Steps that the machine has launched",
    "steps_done": "Steps whose result the machine has taken",
    "device_steps_launched": "Steps that the compute thread has given to the device",
    "device_steps_proven": "Steps that the device was proven to have ended",
    "prompt_tokens_computed": "Prompt tokens that steps have computed; cached ones are not among them",
    "tokens_sampled": "Output tokens that steps have sampled",
    "decode_steps": "Steps with decodes",
    "decode_step_seconds": "Duration of steps with decodes",
    "decode_step_sequences": "Sequences that decoded, over all steps",
    "decode_step_activations": "Sequences that joined the batch",
    "rank_steps": "Steps that the ranks of this executor have agreed on, as each of them says",
    "rank_wait_seconds": "Time in which a rank waited for the others",
    "rank_kv_transfer_bytes": "KV bytes that a rank has given to the transport",
    "rank_kv_transfer_landed_bytes": "KV bytes of a rank that were proven to have landed",
    "grammars_compiled": "Grammars compiled: one for each sequence under a grammar, and again where its state was full",
    "grammars_failed": "Grammars that could not be compiled or gone on with",
    # executor: transfer of KV
    "transfers_incoming": "Transfers to this executor that are not closed",
    "transfers_outgoing": "Transfers from this executor that are not closed",
    "transfers_quarantined": "Incoming transfers that wait for the writer's proof",
    "quarantined_transfers": "Incoming transfers that came to wait for the writer's proof",
    "transfers_failed": "Outgoing transfers that failed",
    "transfer_bytes_in_flight": "KV bytes posted and not landed",
    "late_transfer_messages": "Messages about transfers that were over",
    "receives_early": "Receives that came before their sequence",
    "parked_tokens": "Computed prompt tokens that wait for a decode executor or their transfer",
    "kv_bytes_posted": "KV bytes posted for prompts that ended here",
    "kv_bytes_posted_early": "Of those, the ones posted before the prompt's end",
    "kv_transfer_bytes": "KV bytes given to the transport",
    "kv_transfer_submitted_pieces": "Pieces given to the transfer thread",
    "kv_transfer_posted_pieces": "Pieces given to the transport",
    "kv_transfer_landed_pieces": "Pieces that were proven to have landed",
    "kv_transfer_landed_bytes": "KV bytes that were proven to have landed",
    "kv_transfer_failed_pieces": "Pieces that failed, posted or not",
    "kv_transfer_agents_opened": "Transport agents opened",
    "kv_transfer_agents_closed": "Transport agents closed",
    "kv_transfer_post_seconds": "Time inside posts",
    "admitted_to_first_token_seconds": "From an attempt's admission here to its first token",
    "computed_to_commit_seconds": "From a prompt's last computed token to the post of its last piece",
    "computed_to_landed_seconds": "From a prompt's last computed token to the proof that all its KV has landed",
    "last_post_seconds": "How long the post of a prompt's last piece took: some transports copy in it",
    "landed_to_activated_seconds": "From the landing of all KV to where the sequence may be in the next step",
    "landed_to_scheduled_seconds": "From the landing of all KV to the launch of the first step that decodes it",
    "landed_to_scheduled_steps": "Steps launched between the landing of all KV and the first that decodes it",
    # launcher
    "exits": "Children that have ended at least once",
}
#: names that end with a reason code or a role
FAMILIES: dict[str, str] = {
    "attempts_failed_": "Attempts that failed with the reason",
    "ended_": "Choices that ended with the reason",
    "refused_": "Attempts refused with the reason",
    "failed_": "Attempts that failed here with the reason",
    "walk_": "Walks of the queue that were ended by",
    "prefix_waits_": "Waits for a prefix that ended because they were",
    "prefix_wait_refused_": "Attempts that did not wait for a prefix that is being computed:",
    "wait_": "Waits for the reason",
    "executors_": "Live executors of the role",
}


def metric_text(name: str) -> str:
    """`name` as an owner gives it. One that nobody has explained is said again in words."""
    plain = name.removesuffix("_total")
    if plain in TEXTS:
        return TEXTS[plain]
    for prefix, text in FAMILIES.items():
        if plain.startswith(prefix):
            return f"{text} {plain.removeprefix(prefix).upper()}"
    return plain.replace("_", " ")
