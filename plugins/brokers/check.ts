// Checks a broker against the rest of the policy: its server is a target with a URL, and its keys can be read.
import type { ConfigConflict, PolicyFacts } from '@svc/core'
import { unknownServer } from '@svc/core/policy'
import { KeyReader } from '@svc/core/secret'
import type { BrokerConfig } from './config.js'

interface CheckInput {
  readonly server: string
  readonly broker: BrokerConfig
  readonly facts: PolicyFacts
  /** Whether code binds a `CredentialSource`. */
  readonly hasSource: boolean
}

export function checkBroker({ server, broker, facts, hasSource }: CheckInput): ConfigConflict[] {
  const { servers, serversWithoutHeaders = [], place } = facts
  const path = ['brokers', server]
  const unknown = servers && unknownServer(server, servers)
  const reader = place && new KeyReader(place, broker.key_dirs)
  return [
    ...(unknown === undefined ? [] : [{ path, message: unknown }]),
    ...(serversWithoutHeaders.includes(server) ? [unusable(server, path)] : []),
    ...referencesOf(broker).flatMap(([at, ref]) => {
      const message = isForeign(ref) ? missingSource(hasSource) : reader?.fileFault(ref)
      return message === undefined ? [] : [{ path: [...path, ...at], message }]
    }),
  ]
}

function unusable(server: string, path: readonly string[]): ConfigConflict {
  const message = `the server "${server}" is a command, which gets no HTTP headers and so not this credential; set it in targets.${server}.env`
  return { path, message, severity: 'warning' }
}

/** The key references and their paths within the broker. */
function referencesOf({ key_refs = [], client_secret_ref, private_key_ref }: BrokerConfig) {
  const named = Object.entries({ client_secret_ref, private_key_ref })
  return [
    ...key_refs.map((ref, index) => [['key_refs', index], ref] as const),
    ...named.flatMap(([key, ref]) => (ref === undefined ? [] : [[[key], ref] as const])),
  ]
}

function isForeign(ref: string): boolean {
  return !/^(?:env:|file:\/\/)/.test(ref)
}

function missingSource(hasSource: boolean): string | undefined {
  return hasSource ? undefined : 'is neither env:NAME nor file://PATH, and no CredentialSource is bound'
}
