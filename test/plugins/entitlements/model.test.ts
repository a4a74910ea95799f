import { expect } from 'chai'
import fc from 'fast-check'
import { acme, verdictOn } from './stage.js'

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

/** By the words of the specification, one pattern after the other, with the language's own regular expressions. */
function matches(patterns: string[] = [], server: string, tool: string, version: string): boolean {
  return patterns.some((source) => {
    const [head = '', tail] = source.split('/')
    const [toolPart = '', versionPart = '*'] = (tail ?? head).split('@')
    const fits = (globText: string, text: string) =>
      new RegExp(`^${globText.replaceAll('*', '.*')}$`).test(text)
    return fits(tail === undefined ? '*' : head, server) && fits(toolPart, tool) && fits(versionPart, version)
  })
}

describe('entitlements: decisions', () => {
  it('are those of a naive model', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({ tenant: lists, plan: lists, user: lists, dev: lists, ops: lists, node: lists }),
        fc.record({
          user: fc.option(fc.constantFrom('ada', 'bob'), { nil: undefined }),
          roles: fc.subarray(['dev', 'ops', 'other']),
          claims: fc.option(fc.constantFrom('n1', 'n2'), { nil: undefined }),
          nodeId: fc.option(fc.constantFrom('n1', 'n2'), { nil: undefined }),
        }),
        fc.record({ server: name, tool: name, version: name }),
        async (policy, { user, roles, claims, nodeId }, { server, tool, version }) => {
          const speaking: { lists: Lists; allows: boolean }[] = [
            { lists: policy.plan, allows: false },
            { lists: policy.tenant, allows: true },
            ...(user === 'ada' ? [{ lists: policy.user, allows: true }] : []),
            ...(roles.includes('dev') ? [{ lists: policy.dev, allows: true }] : []),
            ...(roles.includes('ops') ? [{ lists: policy.ops, allows: true }] : []),
            ...(claims === 'n1' || nodeId === 'n1'
              ? [{ lists: policy.node, allows: claims === 'n1' && nodeId === 'n1' }]
              : []),
          ]
          const on = (patterns?: string[]) => matches(patterns, server, tool, version)
          const expected = speaking.some(({ lists }) => on(lists.denylist))
            ? 'tool_in_denylist'
            : speaking.some(({ lists, allows }) => allows && on(lists.allowlist))
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
          const who = {
            roles,
            ...(user === undefined ? {} : { user }),
            ...(claims === undefined ? {} : { claims }),
            ...(nodeId === undefined ? {} : { nodeId }),
          }
          expect(await verdictOn(section, who, { server, tool, version })).to.equal(expected)
        },
      ),
      { numRuns: 1000 },
    )
  })
})
