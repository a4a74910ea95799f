// Warns of a block that matches nothing that the gateway knows: one with a misspelt name is in force like any other, and stops
// nobody.
import { foldName, globMatches, globOf } from '@svc/core/match'
import { nearest } from '@svc/core/policy'
import type { OperationRequest } from '../admin/operation.js'
import { type Block, BlockList } from '../blocks/block.js'
import { listedReference } from '../mcp/references.js'
import type { ActivityReader } from './activity-operation.js'
import { policyCallers, type ReadServers } from './policy-operations.js'
import type { PolicyInForce } from './server-tools.js'

interface KnownNames {
  inForce(): PolicyInForce
  readonly serversOf: ReadServers
  readonly activity: ActivityReader
}

/** Undefined if the block matches something. */
export async function unmatchedBlock(
  block: Block,
  request: OperationRequest,
  { inForce, serversOf, activity }: KnownNames,
): Promise<string | undefined> {
  const { policy } = inForce()
  const { pattern } = block
  const list = new BlockList([block])
  switch (block.kind) {
    case 'server': {
      const servers = Object.keys(policy.host.targets)
      if (servers.some((name) => list.findServer(name) !== undefined)) return undefined
      return `the policy has no such server${meant(pattern, servers)}`
    }
    case 'tool': {
      const known = await serversOf(request)
      const tools = known.flatMap(({ server, tools: own }) => own.map((tool) => ({ server, ...tool })))
      const isOn = tools.some(({ server, name, version }) => {
        const reference = listedReference(server, 'tool', name, version)
        return reference !== undefined && list.findReference([reference], 'tool') !== undefined
      })
      const names = tools.map(({ server, name }) => `${server}/${name}`)
      return isOn ? undefined : `no tool of this name is known${meant(pattern, names)}`
    }
    case 'principal': {
      const named = policyCallers(policy)
      const routes = await activity.routes(request)
      const glob = globOf(foldName(pattern))
      const isMeant = (name: string) => name !== '' && globMatches(glob, foldName(name))
      const people = named
        .filter(({ kind }) => kind !== 'role' && kind !== 'node' && kind !== 'anyone')
        .map(({ name }) => name)
      if ([...people, ...routes.map(({ caller }) => caller)].some(isMeant)) return undefined
      if (named.some(({ kind, name }) => kind === 'role' && isMeant(name)))
        return 'this is the name of a role; blocks are of users, subjects and clients'
      return 'the policy names nobody like this, and nobody like this called in the last 24 hours'
    }
  }
}

function meant(pattern: string, names: readonly string[]): string {
  const name = nearest(pattern, names)
  return name === undefined ? '' : `; did you mean "${name}"?`
}
