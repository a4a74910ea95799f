// An attempt of a call that a person may be asked about: its response is written as it stands, or another result in its place.
import { type Call, type Denied, type Failed, isStream, type MaybePromise, type Outcome } from '@svc/core'
import { eventOf } from '@svc/core/http'
import type { CallControl } from '@svc/core/pipeline'
import type { ClientExchange } from '../../http/client-exchange.js'
import { writeOutcome } from '../../http/client-exchange.js'
import type { BufferedResponse } from '../../http/response.js'
import { mcpExchange } from '../../mcp/exchange.js'
import type { MessageOutcome } from '../../mcp/message-outcome.js'

/** A call that was not sent. */
export interface Attempt {
  readonly call: CallControl
  readonly outcome: Outcome
  /** Writes the response that the client then gets. */
  write(): MaybePromise<void>
  /** Writes a result in place of the response. */
  writeResult(result: object): MaybePromise<void>
}

interface Encoding {
  encode(outcome: Denied | Failed, call: Call): BufferedResponse
  response(outcome: Outcome, call: Call): Promise<MessageOutcome>
}

/** The attempt whose response is not written yet. */
export function attemptOf(
  client: ClientExchange,
  call: CallControl,
  outcome: Outcome,
  encoding: Encoding,
): Attempt {
  const write = (): MaybePromise<void> => writeAttempt(client, call, outcome, encoding)
  return {
    call,
    outcome,
    write,
    async writeResult(result) {
      const { id = null } = call.need(mcpExchange)
      const body = JSON.stringify({ jsonrpc: '2.0', id, result })
      if (client.isBegun) await writeLast(client, body)
      else client.whole({ status: 200, headers: { 'content-type': 'application/json' }, body }, call)
    },
  }
}

/** Writes the outcome as the response, or into the stream that has begun. */
export async function writeAttempt(
  client: ClientExchange,
  call: CallControl,
  outcome: Outcome,
  { encode, response }: Encoding,
): Promise<void> {
  const isStreamed = outcome.kind === 'completed' && isStream(outcome.body)
  if (!client.isBegun || isStreamed) return writeOutcome(client, call, outcome, encode)
  await writeLast(client, (await response(outcome, call)).response?.text ?? '')
}

async function writeLast(client: ClientExchange, text: string): Promise<void> {
  await client.write(eventOf(text))
  client.end()
}
