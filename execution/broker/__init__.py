"""From released runs to messages in a queue.

| question | module |
|---|---|
| which runs are sent, and when is a run confirmed as sent? | `dispatch` |
| what does a message contain, and how is it published through kombu? | `messages` |
| which runs share a message? | `bundling`, by the measured duration of their tasks |
| how long is a queue, and what does it deliver next? | `queues` |
| which broker is configured? | `brokers` |
| what is special about one broker? | its file: `redis`; RabbitMQ needs none |

Invariants: messages are sent after the commit that released the runs. A message's id is the id of the attempt
it will start, so a resent message is the same message. A wait is a row, never a delayed message.

On failure: rows whose message the broker did not confirm keep `dispatched_at` empty, and the sweeper resends
them. A message that is delivered twice finds nothing to claim the second time.
"""
