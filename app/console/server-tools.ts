// The tools of the servers in a policy, as far as the gateway can know them: those that an MCP server over HTTP lists
// without a credential, and those that were called in the last 24 hours.
import type { Clock } from '@svc/core'
import type { HostConfig } from '../policy/config.js'
import type { NamedTools } from '../policy-explain/effective-access.js'
import { addressesOf } from '../stdio-targets/config.js'
import { targetOf } from '../upstream/target.js'
import type { ActivityJson } from './activity-operation.js'

/** How long a list counts before the server is asked again. */
const LISTED_MS = 60_000
const MAX_TOOLS = 1_000

export interface KnownServer extends NamedTools {
  /** Whether the server listed them itself. */
  readonly isListed: boolean
}

type Listed = Map<string, string> | undefined

export class ServerTools {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #lists = new Map<string, { readonly at: number; readonly tools: Promise<Listed> }>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** Never rejects: a server that cannot be asked has the tools that were called. */
  async of({ targets }: Pick<HostConfig, 'targets'>, routes: ActivityJson['routes']): Promise<KnownServer[]> {
    return Promise.all(
      Object.entries(addressesOf(targets)).map(async ([server, address]): Promise<KnownServer> => {
        const listed = await this.#listOf(server, address)
        const tools = new Map(
          routes.flatMap((one) => (one.server === server ? [[one.tool, one.version] as const] : [])),
        )
        for (const [name, version] of listed ?? []) tools.set(name, version)
        const sorted = [...tools].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, MAX_TOOLS)
        return {
          server,
          tools: sorted.map(([name, version]) => ({ name, version })),
          isListed: listed !== undefined,
        }
      }),
    )
  }

  #listOf(server: string, address: string): Promise<Listed> {
    const { isMcp, url } = targetOf(address)
    if (!isMcp || !/^https?:$/.test(url.protocol)) return Promise.resolve(undefined)
    const known = this.#lists.get(address)
    if (known !== undefined && this.#clock.monotonic() - known.at < LISTED_MS) return known.tools
    const tools = listedBy(server, address)
    this.#lists.set(address, { at: this.#clock.monotonic(), tools })
    return tools
  }
}

async function listedBy(server: string, address: string): Promise<Listed> {
  const { listHttpTools } = await import('../doctor/listed-tools.js')
  const found = await listHttpTools(server, address)
  return found === undefined ? undefined : new Map(found.names.map((name) => [name, found.version]))
}
