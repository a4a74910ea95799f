// The version of each target, learned from responses that pass through or requested once.
import { type Clock, type Credential, Refusal } from '@svc/core'
import { CachedReads } from '@svc/core/store'
import { isUpstreamError } from '../upstream/response.js'
import { performHandshake, serverVersionIn } from './handshake.js'
import { LearnedValues } from './learned-values.js'
import {
  createSend,
  createSendOwn,
  endSession,
  type OwnRequestOptions,
  ownClientFacts,
} from './own-requests.js'
import type { SharedState } from './shared-state.js'

/** The version of a server that does not name one. */
export const UNVERSIONED = 'unversioned'

/** Time after which a server that named no version is asked again, in milliseconds. */
const ASK_AGAIN_MS = 60_000

/** A day, in milliseconds, after which a version that no response has confirmed is requested again. */
const knownMs = 86_400_000
const maxServers = 10_000

/** The version in the server's response; undefined if it names none. Rejects with `Refusal`. */
export type Probe = (upstream: URL, credential: Credential | undefined) => Promise<string | undefined>

/** Requests the version by a handshake. */
export function versionProbe(own: OwnRequestOptions): Probe {
  const { client, maxBytes, timeoutMs } = own
  return async (upstream, credential) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const send = createSend(own, upstream, credential, { signal })
    try {
      // An error, or a response outside the protocol, counts as a server without a version.
      const { reply, session } = await performHandshake(
        createSendOwn(send, maxBytes),
        ownClientFacts(client),
        false,
      )
      if (session !== undefined) await endSession(send, session)
      return serverVersionIn(reply.result)
    } catch (cause) {
      if (isUpstreamError(cause) || signal.aborted) {
        const reason = isUpstreamError(cause) ? ` ${cause.message}` : ''
        const message = `The server could not be asked for its version.${reason}`
        throw new Refusal('UPSTREAM_UNREACHABLE', message, { cause })
      }
      throw cause
    }
  }
}

export class ServerVersions {
  #probe: Probe
  #learned: LearnedValues
  #asked: CachedReads<string>

  constructor(probe: Probe, state: SharedState, clock: Clock) {
    this.#probe = probe
    this.#asked = new CachedReads(clock, maxServers)
    this.#learned = new LearnedValues(
      state,
      'mcp-versions',
      { ttlMs: knownMs, maxEntries: maxServers },
      clock,
    )
  }

  /** Stores the version in a response that passed through. The latest counts, as a server may be updated. */
  async learn({ href }: URL, version: string): Promise<void> {
    await this.#learned.learn(group, [[href, version]])
  }

  /** The version that this gateway knows, without a request. */
  known({ href }: URL): string | undefined {
    return this.#learned.get(group, href)
  }

  /**
   * Asks the server if no gateway knows its version; concurrent callers share one request. `credential` is called only for
   * that request. Rejects with `Refusal`.
   */
  of(upstream: URL, credential?: () => Promise<Credential | undefined>): Promise<string> | string {
    const refreshing = this.#learned.refresh(group, upstream.href)
    const known = this.known(upstream)
    if (refreshing === undefined && known !== undefined) return known
    const read = () => this.#ask(upstream, credential)
    const keptMs = (version: string): number => (version === UNVERSIONED ? ASK_AGAIN_MS : 0)
    const next = () => this.known(upstream) ?? this.#asked.of(upstream.href, { read, keptMs })
    // If the store is down, the server can still be asked.
    return refreshing === undefined ? next() : refreshing.then(next, next)
  }

  async #ask(upstream: URL, credential?: () => Promise<Credential | undefined>): Promise<string> {
    const held = credential === undefined ? undefined : await credential()
    const version = await this.#probe(upstream, held)
    // A version that passed through in the meantime is newer than the probe's.
    const now = this.known(upstream)
    if (now !== undefined) return now
    if (version === undefined) return UNVERSIONED
    await this.learn(upstream, version)
    return version
  }
}

/** All servers belong to one group. */
const group = ''
