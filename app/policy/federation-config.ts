// The `federation` section of a policy: the servers behind /mcp and /mcp/<group>, and the names of their tools.
import type { ConfigConflict } from '@svc/core'
import { unknownServer } from '@svc/core/policy'
import { z } from 'zod'

const nameSchema = z.string().min(1)

export const federationSchema = z
  .strictObject({
    servers: z
      .array(nameSchema)
      .optional()
      .describe('The targets that /mcp serves, in this order; absent: all. Groups may name others.'),
    groups: z
      .record(nameSchema, z.array(nameSchema).min(1))
      .default({})
      .describe(
        'Group name to targets: /mcp/<group> serves those of the group. No group has the name of a target.',
      ),
    prefix: z
      .enum(['always', 'conflict', 'never'])
      .default('always')
      .describe(
        'Whether names begin with that of their server, `server__tool`: always, only if two servers have the same name (conflict), or never, when a conflict is an error of the list.',
      ),
    list_ttl_ms: z
      .int()
      .min(0)
      .max(86_400_000)
      .default(5_000)
      .describe(
        "Time that a server's list, or its failure, is used again for the same caller, in milliseconds; list_changed and a shorter ttlMs of the server end it. A server that could not be reached is left alone for 10 s, then 30 s, 60 s and longer.",
      ),
    list_timeout_ms: z
      .int()
      .min(1)
      .max(86_400_000)
      .default(10_000)
      .describe(
        'Time that a server has to open a session or send a list, in milliseconds; a command has start_timeout_ms. Clients wait at most 3 s for a new server, and get what comes later by list_changed.',
      ),
  })
  .prefault({})
  .describe('Several targets as one MCP server, at /mcp and /mcp/<group>.')

export type FederationConfig = z.output<typeof federationSchema>

/** Finds names that do not fit the targets. */
export function checkFederation(
  { servers = [], groups }: FederationConfig,
  targets: readonly string[],
): ConfigConflict[] {
  const unknown = (path: readonly (string | number)[], named: readonly string[]): ConfigConflict[] =>
    named.flatMap((server, index) => {
      const message = unknownServer(server, targets)
      return message === undefined ? [] : [{ path: [...path, index], message }]
    })
  return [
    ...unknown(['federation', 'servers'], servers),
    ...Object.entries(groups).flatMap(([group, members]) => [
      ...(isTaken(group, targets)
        ? [
            {
              path: ['federation', 'groups', group],
              message: `a target has this name too; /mcp/${group} is its endpoint`,
            },
          ]
        : []),
      ...unknown(['federation', 'groups', group], members),
    ]),
  ]
}

function isTaken(group: string, targets: readonly string[]): boolean {
  return targets.some((server) => server.normalize('NFC') === group.normalize('NFC'))
}
