// An upstream whose responses the test gives, one by one.
import type { ServerResponse } from 'node:http'

export function heldUpstream() {
  const waiting: ServerResponse[] = []
  let arrived: (() => void) | undefined
  return {
    response: (_call: unknown, response: ServerResponse): void => {
      waiting.push(response)
      arrived?.()
    },
    async next(): Promise<ServerResponse> {
      if (waiting.length === 0) await new Promise<void>((resolve) => (arrived = resolve))
      return waiting.shift() as ServerResponse
    },
  }
}
