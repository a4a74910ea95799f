// The tools of the servers in a policy, as far as the gateway can know them: those that a server lists without a
// credential, a command only while it runs; those that the policy or its lock file names; and those that were called in the last 24 hours. A
// server over HTTP is asked once whether it speaks MCP.
import type { Clock } from '@svc/core'
import { patternsOf } from '@svc/core/policy'
import { LockFileError } from '@svc/plugin-protections'
import type { BlockList } from '../blocks/block.js'
import type { BlockSource } from '../blocks/stage.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { Policy } from '../policy/config.js'
import type { PolicyPlace } from '../policy/facts.js'
import { type KnownTool, lockedTools } from '../policy-tools/diff/known-calls.js'
import type { NamedTools } from '../policy-tools/explain/effective-access.js'
import { addressesOf } from '../stdio/targets/config.js'
import { targetOf } from '../upstream/target.js'
import type { ActivityJson } from './activity-operation.js'

export interface PolicyInForce {
  readonly policy: Policy
  readonly place: PolicyPlace
  /** The blocks of operators, and where the stage gets them. */
  readonly blocks: BlockList
  readonly blocking: BlockSource
}

/** Milliseconds until a server is asked for its list again. */
const LISTED_MS = 60_000
const MAX_TOOLS = 1_000

export interface KnownServer extends NamedTools {
  /** Whether the server listed them itself. */
  readonly isListed: boolean
  /** Whether the invoke protocol calls its tools by MCP. */
  readonly isMcp: boolean
  /** Names that were called, although the server does not list them and the policy does not name them; some are mistyped. */
  readonly calledOnly: ReadonlySet<string>
}

type Versions = Map<string, string>

interface ServerToolsOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  inForce(): PolicyInForce
  /** Undefined if the command does not run, or does not list its tools. */
  listCommand(server: string, address: string): Promise<Listed | undefined>
}

interface Listed {
  readonly version: string
  readonly names: readonly string[]
}

export class ServerTools {
  readonly #options: ServerToolsOptions
  /** Addresses over HTTP that may be no MCP server, and whether they were when they were asked, once. */
  readonly #speakMcp = new Map<string, boolean>()
  readonly #lists = new Map<string, { readonly at: number; readonly tools: Promise<Versions | undefined> }>()
  #known: readonly KnownServer[] = []
  readonly #named = new WeakMap<Policy, ReadonlyMap<string, readonly string[]>>()

  constructor(options: ServerToolsOptions) {
    this.#options = options
  }

  /** The tools that were known when somebody asked last, in the form of a comparison of policies. */
  get known(): KnownTool[] {
    return this.#known.flatMap(({ server, tools }) => tools.map((tool) => ({ server, ...tool })))
  }

  /** Never rejects for a server that cannot be asked. */
  async of(routes: ActivityJson['routes']): Promise<KnownServer[]> {
    const { policy, place } = this.#options.inForce()
    const named = this.#named.get(policy) ?? namedTools(policy, place)
    this.#named.set(policy, named)
    const targets = Object.entries(addressesOf(policy.host.targets))
    this.#known = await Promise.all(
      targets.map(async ([server, address]): Promise<KnownServer> => {
        const calls = routes.filter((one) => one.server === server)
        // A server that has responded to a method of MCP may be asked for a list too.
        const speaksMcp = calls.some(({ kind, allowed, failed }) => kind === 'protocol' && allowed > failed)
        const isMcp = speaksMcp || isCommand(address) || targetOf(address).isMcp
        const mayAsk = isMcp || this.#speakMcp.get(address) !== false
        const listed = mayAsk ? await this.#listOf(server, address) : undefined
        if (mayAsk && !isMcp) this.#speakMcp.set(address, listed !== undefined)
        const called = calls.filter(({ kind }) => kind === 'tool')
        const byPolicy = new Set(named.get(server) ?? [])
        const tools: Versions = new Map([
          ...[...byPolicy].map((name) => [name, UNVERSIONED] as const),
          ...called.map(({ tool, version }) => [tool, version] as const),
          ...(listed ?? []),
        ])
        const sorted = [...tools].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, MAX_TOOLS)
        return {
          server,
          tools: sorted.map(([name, version]) => ({ name, version })),
          isListed: listed !== undefined,
          isMcp: targetOf(address).isMcp,
          calledOnly: new Set(
            sorted.flatMap(([name]) => (byPolicy.has(name) || listed?.has(name) === true ? [] : [name])),
          ),
        }
      }),
    )
    return [...this.#known]
  }

  async #listOf(server: string, address: string): Promise<Versions | undefined> {
    const known = this.#lists.get(address)
    if (known !== undefined && this.#options.clock.monotonic() - known.at < LISTED_MS) return known.tools
    const tools = this.#ask(server, address)
    this.#lists.set(address, { at: this.#options.clock.monotonic(), tools })
    const found = await tools
    // A command that starts meanwhile is asked at the next read.
    if (found === undefined && isCommand(address)) this.#lists.delete(address)
    return found
  }

  async #ask(server: string, address: string): Promise<Versions | undefined> {
    const found = isCommand(address)
      ? await this.#options.listCommand(server, address)
      : await (await import('../doctor/listed-tools.js')).listHttpTools(server, address)
    return found && new Map(found.names.map((name) => [name, found.version]))
  }
}

function isCommand(address: string): boolean {
  return targetOf(address).url.protocol === 'stdio:'
}

/** None if the lock file has become unreadable since the policy was loaded: the next check of the policy reports it. */
function readableLock(policy: Policy, baseDir: string): readonly KnownTool[] {
  try {
    return lockedTools(policy, baseDir)
  } catch (error) {
    if (error instanceof LockFileError) return []
    throw error
  }
}

/** The names in the lock file, and those without a wildcard in patterns, by server. */
function namedTools(policy: Policy, { baseDir }: PolicyPlace): ReadonlyMap<string, readonly string[]> {
  const named = new Map<string, string[]>()
  for (const { server, name } of readableLock(policy, baseDir))
    named.set(server, [...(named.get(server) ?? []), name])
  for (const { pattern } of patternsOf(policy)) {
    const [, server = '', tool] = /^(?:mcp:\/\/)?([^/*]+)\/([^/*@]+)(?:@[^@]*)?$/.exec(pattern) ?? []
    if (tool !== undefined) named.set(server, [...(named.get(server) ?? []), tool])
  }
  return named
}
