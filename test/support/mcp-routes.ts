// MCP servers, and the routes on which a client reaches them: directly, through a gateway, through two gateways with a
// shared store behind a round robin, and as one of several servers, at a group of its own of the first gateway.
import { startTestGateway } from './gateway.js'
import { startRedis } from './redis.js'
import { startRoundRobin } from './round-robin.js'

export type Route = 'directly' | 'through a gateway' | 'through two gateways' | 'as one of several'

export interface McpServers {
  readonly [name: string]: { readonly url: string } & AsyncDisposable
}

export interface McpRoutes extends AsyncDisposable {
  /** The URL of a server by its name. */
  to(server: string, route: Route): string
}

/** The servers end with the routes. With one gateway there is no third route. */
export async function startMcpRoutes(servers: McpServers, gateways: 1 | 2 = 1): Promise<McpRoutes> {
  const open: AsyncDisposable[] = Object.values(servers)
  const targets = Object.fromEntries(Object.entries(servers).map(([name, { url }]) => [name, url]))
  const close = async (): Promise<void> => {
    for (const part of open.splice(0).reverse()) await part[Symbol.asyncDispose]()
  }
  const opened = async <T extends AsyncDisposable>(starting: Promise<T>): Promise<T> => {
    const part = await starting
    open.push(part)
    return part
  }
  try {
    const groups = Object.fromEntries(Object.keys(targets).map((name) => [`as-one-${name}`, [name]]))
    const one = await opened(startTestGateway({ targets, federation: { prefix: 'never', groups } }))
    const bases: Partial<Record<Route, string>> = { 'through a gateway': one.url }
    if (gateways === 2) {
      const { url: redisUrl } = await opened(startRedis())
      const shared = { targets, quotas: { adapter: 'redis', redisUrl } }
      const first = await opened(startTestGateway(shared))
      const second = await opened(startTestGateway(shared))
      const balancer = await opened(startRoundRobin([first.url, second.url]))
      bases['through two gateways'] = balancer.url
    }
    return {
      to(server, route) {
        if (route === 'directly') return targets[server] ?? ''
        return route === 'as one of several'
          ? `${one.url}/mcp/as-one-${server}`
          : `${bases[route]}/mcp/${server}`
      },
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
