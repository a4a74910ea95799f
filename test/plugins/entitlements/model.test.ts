import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'
import { acme, reasonFor } from './rig.js'

interface Lists {
  allowlist?: string[]
  denylist?: string[]
}

const name = fc.constantFrom('a', 'b', 'ab', 'abc')
const glob = fc.constantFrom('a', 'b', 'a*', '*b', '*', 'a*c', 'ab')
const pattern = fc.oneof(
  glob,
  fc.tuple(glob, glob).map(([server, tool]) => `${server}/${tool}`),
  fc.tuple(glob, glob).map(([tool, version]) => `${tool}@${version}`),
  fc.tuple(glob, glob, glob).map(([server, tool, version]) => `${server}/${tool}@${version}`),
)
const list = fc.array(pattern, { maxLength: 3 })
const lists = fc.record<Lists>({ allowlist: list, denylist: list }, { requiredKeys: [] })

/** A direct implementation of the pattern syntax with regular expressions. */
function matches(patterns: string[] = [], server: string, tool: string, version: string): boolean {
  return patterns.some((source) => {
    const [head = '', tail] = source.split('/')
    const [toolPart = '', versionPart = '*'] = (tail ?? head).split('@')
    const isMatch = (globText: string, text: string) =>
      new RegExp(`^${globText.replaceAll('*', '.*')}$`).test(text)
    return (
      isMatch(tail === undefined ? '*' : head, server) &&
      isMatch(toolPart, tool) &&
      isMatch(versionPart, version)
    )
  })
}

describe('entitlements: decisions', () => {
  it('agree with a naive implementation', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({ tenant: lists, plan: lists, user: lists, dev: lists, ops: lists, node: lists }),
        fc.record({
          user: fc.option(fc.constantFrom('ada', 'bob'), { nil: undefined }),
          roles: fc.subarray(['dev', 'ops', 'other']),
          claimedNode: fc.option(fc.constantFrom('n1', 'n2'), { nil: undefined }),
          nodeId: fc.option(fc.constantFrom('n1', 'n2'), { nil: undefined }),
        }),
        fc.record({ server: name, tool: name, version: name }),
        async (policy, { user, roles, claimedNode, nodeId }, { server, tool, version }) => {
          const levels: { lists: Lists; allows: boolean }[] = [
            { lists: policy.plan, allows: false },
            { lists: policy.tenant, allows: true },
            ...(user === 'ada' ? [{ lists: policy.user, allows: true }] : []),
            ...(roles.includes('dev') ? [{ lists: policy.dev, allows: true }] : []),
            ...(roles.includes('ops') ? [{ lists: policy.ops, allows: true }] : []),
            ...(claimedNode === 'n1' || nodeId === 'n1'
              ? [{ lists: policy.node, allows: claimedNode === 'n1' && nodeId === 'n1' }]
              : []),
          ]
          const on = (patterns?: string[]) => matches(patterns, server, tool, version)
          const expected = levels.some(({ lists }) => on(lists.denylist))
            ? 'tool_in_denylist'
            : levels.some(({ lists, allows }) => allows && on(lists.allowlist))
              ? 'allowed'
              : 'tool_not_in_allowlist'
          const section = acme(
            {
              ...policy.tenant,
              users: { ada: policy.user },
              roles: { dev: policy.dev, ops: policy.ops },
              agent_nodes: { n1: policy.node },
            },
            policy.plan,
          )
          const caller = {
            roles,
            ...(user === undefined ? {} : { user }),
            ...(claimedNode === undefined ? {} : { claimedNode }),
            ...(nodeId === undefined ? {} : { nodeId }),
          }
          expect(await reasonFor(section, caller, { server, tool, version })).to.equal(expected)
        },
      ),
      { numRuns: propertyRuns(300) },
    )
  })
})
