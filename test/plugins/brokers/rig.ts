// A brokers stage with keys in files and variables.
import { writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import {
  type Credential,
  credential,
  type Identity,
  mcpFacts,
  type ResponseHead,
  type Stage,
} from '@svc/core'
import { brokersPlugin } from '@svc/plugin-brokers'
import { makeCall } from '../../support/call.js'
import { type Sent, StageRig, send, why as shortWhy } from '../../support/stage-rig.js'

export const ada: Identity = { tenant: 'acme', authenticated: true, user: 'ada@example.com', roles: [] }

export class BrokersRig extends StageRig {
  write(name: string, key: string): void {
    writeFileSync(join(this.home, name), key)
  }

  /** A started stage with this broker for the server `files`. */
  stage(broker: object): Promise<Stage> {
    return this.start(brokersPlugin, { files: { inject: { header: 'X-Api-Key', format: 'raw' }, ...broker } })
  }
}

export interface Brokered extends Sent {
  readonly credential: Credential | undefined
}

export async function sendWith(
  stage: Stage,
  headers: IncomingHttpHeaders = {},
  caller: Identity = ada,
): Promise<Brokered> {
  const call = makeCall({ headers, caller })
  const { 'mcp-session-id': session } = headers
  if (typeof session === 'string') call.set(mcpFacts, () => ({ serverSessionId: session }))
  const sent = await send(stage, call)
  return { ...sent, credential: sent.call.get(credential) }
}

/** The key that the call would send; throws if the call was refused. */
export async function keyFor(stage: Stage, headers: IncomingHttpHeaders = {}): Promise<string> {
  return held(await sendWith(stage, headers)).value
}

export function held({ credential, outcome }: Brokered): Credential {
  if (credential === undefined) throw new Error(`no credential: ${JSON.stringify(outcome)}`)
  return credential
}

/** Simulates the upstream's response; the result is the credential for the repetition. */
export async function afterResponse(
  brokered: Brokered | Credential,
  status: number,
  headers: ResponseHead['headers'] = {},
): Promise<Credential | undefined> {
  const used = 'call' in brokered ? held(brokered) : brokered
  return used.onResponse?.({ status, headers })
}

/** `CODE: message`, and the cause as the log has it. */
export function why(brokered: Brokered): { said: string; logged: string } {
  const { outcome } = brokered
  const cause = outcome.kind === 'failed' && outcome.cause instanceof Error ? outcome.cause.message : ''
  return { said: shortWhy(brokered), logged: cause }
}
