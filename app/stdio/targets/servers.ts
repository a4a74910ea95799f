// Sends the messages for targets that are commands to their processes, and all others over HTTP.
import type { McpRequest, McpResponse, McpServers } from '../../mcp/servers.js'
import { UpstreamError } from '../../upstream/response.js'
import { stdioTargetsOf, type Targets } from './config.js'
import type { StdioEndpoint, StdioEndpointOptions } from './endpoint.js'
import type { StdioPlace } from './launcher.js'
import type { ProcessState } from './server-pool.js'

export interface StdioServersOptions extends Omit<StdioEndpointOptions, 'name' | 'target' | 'launcher'> {
  /** Sends to all other targets. */
  readonly http: McpServers
}

/** The servers of a policy's targets. */
export class StdioServers implements McpServers {
  #options: StdioServersOptions
  /** The endpoints by address. */
  #endpoints = new Map<string, StdioEndpoint>()

  constructor(options: StdioServersOptions) {
    this.#options = options
  }

  /** Adds the commands of a policy, and starts those that start with the gateway. Loads its code for the first. */
  async add(targets: Targets, place: StdioPlace): Promise<void> {
    const { http: _, ...parts } = this.#options
    const commands = stdioTargetsOf(targets)
    if (commands.size === 0) return
    const { StdioEndpoint } = await import('./endpoint.js')
    const { Launcher } = await import('./launcher.js')
    for (const [address, { server, target }] of commands) {
      const known = this.#endpoints.get(address)
      known?.forgetFailures()
      const endpoint =
        known ?? new StdioEndpoint({ ...parts, name: server, target, launcher: new Launcher(target, place) })
      this.#endpoints.set(address, endpoint)
      if (target.start === 'at_start') void endpoint.keepRunning()
    }
  }

  /** Ends the processes of commands that `targets` does not have. */
  async keep(targets: Targets): Promise<void> {
    const kept = stdioTargetsOf(targets)
    const gone = [...this.#endpoints].filter(([address]) => !kept.has(address))
    for (const [address] of gone) this.#endpoints.delete(address)
    await Promise.all(gone.map(([, endpoint]) => endpoint.close()))
  }

  /** Warnings for `/readyz`; the reasons are in the log. */
  warnings(): string[] {
    return [...this.#endpoints.values()]
      .filter(({ isDown }) => isDown)
      .map(({ name }) => `the MCP server "${name}", which starts with the gateway, is not running`)
  }

  /** Whether the target is a command that is known to speak revisions with a handshake alone. */
  isHandshakeAlone({ href }: URL): boolean {
    return this.#endpoints.get(href)?.isHandshakeAlone === true
  }

  /** The state of a target that is a command; undefined for others. */
  stateOf(server: string): ProcessState | undefined {
    return [...this.#endpoints.values()].findLast(({ name }) => name === server)?.state
  }

  send(target: URL, request: McpRequest, onSent: () => void): Promise<McpResponse> {
    if (target.protocol !== 'stdio:') return this.#options.http.send(target, request, onSent)
    const endpoint = this.#endpoints.get(target.href)
    if (endpoint === undefined) {
      return Promise.reject(new UpstreamError('The MCP server is no longer a target of the policy.', 'no'))
    }
    return endpoint.send(request, onSent)
  }

  async close(): Promise<void> {
    const endpoints = [...this.#endpoints.values()]
    this.#endpoints.clear()
    await Promise.all(endpoints.map((endpoint) => endpoint.close()))
  }
}
