// The version of each target: learned from answers that pass through, else requested once.
import type { Clock, Credential } from '@svc/core'

/** In place of the version of a server that names none. */
export const UNVERSIONED = 'unversioned'

/** Time until a server that named no version is asked again, in milliseconds. */
const ASK_AGAIN_MS = 60_000

interface Known {
  readonly version: string
  /** Milliseconds since the epoch; the version itself holds until another is learned. */
  readonly askAgainAt: number
}

/** The version in the server's answer, undefined where it names none. Rejects with `Refusal`. */
export type Probe = (upstream: URL, credential: Credential | undefined) => Promise<string | undefined>

export class ServerVersions {
  #probe: Probe
  #clock: Clock
  #known = new Map<string, Known>()
  #asking = new Map<string, Promise<string>>()

  constructor(probe: Probe, clock: Clock) {
    this.#probe = probe
    this.#clock = clock
  }

  /** Stores the version in an answer that passed through. The latest counts, as a server may be updated. */
  learn(upstream: URL, version: string): void {
    this.#known.set(upstream.href, { version, askAgainAt: Number.POSITIVE_INFINITY })
  }

  /** The known version, without a request. */
  known(upstream: URL): string | undefined {
    return this.#known.get(upstream.href)?.version
  }

  /**
   * Asks the server where its version is not known; concurrent callers share one request. `credential` is called only
   * for that request. Rejects with `Refusal`.
   */
  of(upstream: URL, credential?: () => Promise<Credential | undefined>): Promise<string> | string {
    const { href } = upstream
    const known = this.#known.get(href)
    if (known !== undefined && this.#clock.now() < known.askAgainAt) return known.version
    const asking = this.#asking.get(href)
    if (asking !== undefined) return asking
    const asked = this.#ask(upstream, credential).finally(() => this.#asking.delete(href))
    this.#asking.set(href, asked)
    return asked
  }

  async #ask(upstream: URL, credential?: () => Promise<Credential | undefined>): Promise<string> {
    const before = this.#known.get(upstream.href)
    const held = credential === undefined ? undefined : await credential()
    const version = await this.#probe(upstream, held)
    // A version that passed through in the meantime is newer than the probe's.
    const now = this.#known.get(upstream.href)
    if (now !== undefined && now !== before) return now.version
    if (version === undefined) {
      this.#known.set(upstream.href, { version: UNVERSIONED, askAgainAt: this.#clock.now() + ASK_AGAIN_MS })
      return UNVERSIONED
    }
    this.learn(upstream, version)
    return version
  }
}
