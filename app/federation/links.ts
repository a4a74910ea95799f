// The links of one client to servers, each opened on first use.
import type { Clock } from '@svc/core'
import { isStateless } from '../mcp/protocol.js'
import type { ServerLink } from './server-link.js'

/** How long a server without sessions counts as such, in milliseconds. */
const statelessMs = 600_000

interface Opened {
  /** The link, or why there is none. */
  readonly link: Promise<ServerLink>
  /** By the monotonic clock; unknown while the link is being opened. */
  until?: number
  hasFailed?: true
}

export interface LinkUse {
  /** How long the failure of a server counts, in milliseconds; 0 to try again. */
  readonly failureMs: number
  open(): Promise<ServerLink>
}

export class Links {
  #clock: Pick<Clock, 'monotonic'>
  #opened = new Map<string, Opened>()
  #listeners = new Set<(link: ServerLink) => void>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** The link to `server`; concurrent callers share one `open`. Rejects as it does. */
  async of(server: string, { open, failureMs }: LinkUse): Promise<ServerLink> {
    const known = this.#opened.get(server)
    const isCurrent = known?.until === undefined || this.#clock.monotonic() < known.until
    if (known !== undefined && isCurrent && (known.hasFailed !== true || failureMs > 0)) return known.link
    const opened: Opened = { link: open() }
    this.#opened.set(server, opened)
    try {
      const link = await opened.link
      opened.until = isStateless(link.revision)
        ? this.#clock.monotonic() + statelessMs
        : Number.POSITIVE_INFINITY
      for (const listener of this.#listeners) listener(link)
      return link
    } catch (fault) {
      opened.hasFailed = true
      opened.until = this.#clock.monotonic() + failureMs
      throw fault
    }
  }

  /** The server has ended the session of `link`. */
  async drop(link: ServerLink): Promise<void> {
    const known = this.#opened.get(link.server)
    const isSame = known !== undefined && known.hasFailed !== true && (await known.link) === link
    if (isSame && this.#opened.get(link.server) === known) {
      this.#opened.delete(link.server)
    }
  }

  /** Runs `listener` for each link that opens from now on. Returns a function that removes it. */
  onOpen(listener: (link: ServerLink) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Those that are open, and those that open now and do not fail. */
  async open(): Promise<ServerLink[]> {
    const settled = await Promise.allSettled([...this.#opened.values()].map(({ link }) => link))
    return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }
}
