// Issues one hop of a chain: an SD-JWT whose delegate payload is disclosed.
import { randomBytes } from 'node:crypto'
import { digestOf } from '../mandate/hash.js'
import { type LocalKey, signToken } from './local-key.js'

export interface HopInit {
  readonly key: LocalKey
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Readonly<Record<string, unknown>>
  readonly mandate: Readonly<Record<string, unknown>>
  /** Members of the mandate in disclosures of their own. */
  readonly disclosed?: Readonly<Record<string, unknown>>
}

/** The JWT with its disclosures, each followed by `~`. */
export async function issueHop({ key, header, claims, mandate, disclosed = {} }: HopInit): Promise<string> {
  const members = Object.entries(disclosed).map(([name, value]) => disclosure([name, value]))
  const body = members.length === 0 ? mandate : { _sd: members.map((text) => digestOf(text)), ...mandate }
  const payload = disclosure([body])
  const token = await signToken(key, header, {
    delegate_payload: [{ '...': digestOf(payload) }],
    ...claims,
    _sd_alg: 'sha-256',
  })
  return [token, payload, ...members, ''].join('~')
}

function disclosure(parts: readonly unknown[]): string {
  const salt = randomBytes(16).toString('base64url')
  return Buffer.from(JSON.stringify([salt, ...parts])).toString('base64url')
}
