// A time limit of one call: a server that hangs must not hold up the others.
import type { Call } from '@svc/core'

export function abortAfter(call: Call, ms: number): void {
  const timer = setTimeout(
    () => call.abort('UPSTREAM_UNREACHABLE', 'The server did not answer in time.'),
    ms,
  ).unref()
  call.afterSettle(() => clearTimeout(timer))
}
