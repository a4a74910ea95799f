// The operations on the servers of the policy in force: how they are reached and do, and how clients reach them through
// the gateway.
import { resolveOptional, services } from '@svc/core'
import { definitionReviews } from '@svc/plugin-protections'
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'
import { canonicalBase } from '../http/public-url.js'
import type { HostConfig } from '../policy/config.js'
import { targetOf } from '../upstream/target.js'
import type { ProcessFacts } from './process-facts.js'
import type { PolicyInForce } from './server-tools.js'

interface GatewayDependencies {
  inForce(): PolicyInForce
  /** The URL at which callers reach the gateway. */
  url(): Promise<string>
  readonly facts: Pick<ProcessFacts, 'stateOf'>
}

const serverSchema = z.object({
  server: z.string(),
  kind: z
    .enum(['stdio', 'mcp', 'http'])
    .describe('A command; an MCP server over HTTP that the invoke protocol reaches too; another over HTTP.'),
  address: z.string().describe('The command or the URL, with … in place of what may be a secret.'),
  state: z
    .enum(['up', 'starting', 'idle', 'down', 'unknown'])
    .describe('The state of the processes of a command: idle means that the next call starts one.'),
  processes: z.int().optional(),
  reason: z.string().optional().describe('Why it is down.'),
  changed: z.int().nullable().describe('Definitions that wait; null if the policy does not pin any.'),
})

const serversSchema = z.object({
  gateway: z.string().describe('Its name in records, without the version.'),
  servers: z.array(serverSchema),
})

export type ServersJson = z.output<typeof serversSchema>

export function serversOperation(gateway: GatewayDependencies): Operation {
  return operation({
    method: 'GET',
    path: '/api/servers',
    name: 'list_servers',
    summary: 'Returns the servers of the policy: kind, address, state, how many of their definitions wait.',
    access: 'auditor',
    isUnrecorded: true,
    response: serversSchema,
    async run({ policy: { container } }): Promise<ServersJson> {
      const reviews = await resolveOptional(container, definitionReviews)?.waiting()
      const { targets } = gateway.inForce().policy.host
      const servers = await Promise.all(
        Object.entries(targets).map(async ([server, target]): Promise<ServersJson['servers'][number]> => {
          const review = reviews?.find((one) => one.server === server)
          return {
            server,
            kind: typeof target !== 'string' ? 'stdio' : targetOf(target).isMcp ? 'mcp' : 'http',
            address: await addressWithoutSecrets(target),
            ...(gateway.facts.stateOf(server) ?? { state: 'unknown' }),
            changed: reviews === undefined ? null : (review?.definitions.length ?? 0),
          }
        }),
      )
      const { gateway: name = '' } = resolveOptional(container, services.auditLog) ?? {}
      return { gateway: name.replace(/@[^@]*$/, ''), servers }
    },
  })
}

const clientsSchema = z.object({
  url: z.string().describe('The URL of the gateway for clients.'),
  is_public: z.boolean().describe('Whether it is the publicUrl of the policy; else it is for this machine.'),
  servers: z.array(
    z.object({
      name: z.string().describe('The name of a server or a group; empty for all servers as one.'),
      url: z.string(),
      clients: z.array(z.object({ client: z.string(), file: z.string(), text: z.string() })),
    }),
  ),
})

export type ClientsJson = z.output<typeof clientsSchema>

export function clientsOperation(gateway: GatewayDependencies): Operation {
  return operation({
    method: 'GET',
    path: '/api/clients',
    name: 'show_clients',
    summary: 'Returns what the configuration of each known client has for this gateway.',
    access: 'auditor',
    isUnrecorded: true,
    response: clientsSchema,
    async run({ policy }): Promise<ClientsJson> {
      const { remoteConfigurations } = await import('../init/clients/clients.js')
      const { targets, federation, server } = gateway.inForce().policy.host
      const url = server.publicUrl === undefined ? await gateway.url() : canonicalBase(server.publicUrl)
      const { clientId } = resolveOptional(policy.container, services.signIn) ?? {}
      const names = ['', ...Object.keys(federation.groups), ...Object.keys(targets)]
      const servers = names.map((name) => {
        const at = name === '' ? `${url}/mcp` : `${url}/mcp/${encodeURIComponent(name)}`
        const clients = remoteConfigurations({ name: name === '' ? 'gateway' : name, url: at, clientId })
        return { name, url: at, clients }
      })
      return { url, is_public: server.publicUrl !== undefined, servers }
    },
  })
}

/** A URL without credentials, query and fragment; a command with its arguments, and not its variables. */
async function addressWithoutSecrets(target: HostConfig['targets'][string]): Promise<string> {
  const { isPrivateArgument } = await import('../init/clients/private-values.js')
  const shown = (part: string, previous?: string) => (isPrivateArgument(part, previous) ? '…' : part)
  if (typeof target !== 'string') {
    const { command, args } = target
    return [command, ...args.map((arg, index) => shown(arg, args[index - 1]))].join(' ')
  }
  const { origin, pathname } = targetOf(target).url
  const path = pathname.split('/').map((segment) => shown(segment))
  return `${origin}${path.join('/')}`.replace(/\/$/, '')
}
