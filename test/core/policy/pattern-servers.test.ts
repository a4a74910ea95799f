import { definePlugin, type PolicyHost } from '@svc/core'
import { loadPolicy, patternSchema, patternsSchema } from '@svc/core/policy'
import { expect } from 'chai'
import { container } from 'tsyringe'
import { z } from 'zod'

/** A section with patterns in every form of a schema. */
const plugin = definePlugin({
  name: 'lists',
  version: '1.0.0',
  core: '^1.0.0',
  schema: z
    .union([
      z.literal('open'),
      z.strictObject({
        allowlist: z.array(patternSchema).optional(),
        denylist: z.array(patternSchema.describe('A pattern.')).min(1).optional(),
        limits: patternsSchema(z.number()).describe('By pattern.').default({}),
        users: z.record(z.string(), z.strictObject({ tools: z.array(patternSchema) })).optional(),
      }),
    ])
    .optional()
    .transform((section) => section ?? 'none'),
  create: () => ({ handle: (_call, next) => next() }),
})

function reported(section: object, host: PolicyHost): string[] {
  const result = loadPolicy({
    layers: [{ file: 'policy', object: { lists: section } }],
    host: z.strictObject({}),
    policyHost: () => host,
    plugins: [plugin],
    bindings: container.createChildContainer(),
    env: {},
  })
  const found = result.ok ? [...result.policy.warnings, ...result.policy.notes] : result.mistakes
  return found.map(({ severity, path, message }) => `${severity} ${path}: ${message}`)
}

const servers = ['files', 'a/b']
const known = 'known: files, a/b'

describe('the servers of patterns in a policy', () => {
  for (const [pattern, where, message] of [
    [
      'flies/read',
      'both',
      `mistake PATH: "flies/read": no target is named "flies"; did you mean "files"? ${known}`,
    ],
    [
      'mcp://flies/read@1.0.0',
      'both',
      'mistake PATH: "mcp://flies/read@1.0.0": no target is named "flies"; did you mean "files"?',
    ],
    [
      'nothing/prompts/read',
      'both',
      `mistake PATH: "nothing/prompts/read": no target is named "nothing"; ${known}`,
    ],
    [
      'FILES/read',
      'allowlist',
      `mistake PATH: "FILES/read": no target is named "FILES"; did you mean "files"? ${known}`,
    ],
    ['g*/read', 'both', `note PATH: "g*/read" matches no target; ${known}`],
    ['files/anything', 'none', ''],
    ['f*/read', 'none', ''],
    ['read', 'none', ''],
    ['a%2Fb/read', 'none', ''],
    ['*', 'none', ''],
  ] as const) {
    it(`are targets, or it is said: ${pattern} is wrong in ${where === 'both' ? 'each list' : where}`, () => {
      const places: [string, object][] = [
        ['lists.allowlist[0]', { allowlist: [pattern] }],
        ['lists.denylist[0]', { denylist: [pattern] }],
        ['lists.users.ann.tools[0]', { users: { ann: { tools: [pattern] } } }],
      ]
      for (const [path, section] of places) {
        const isWrong = where === 'both' || (where === 'allowlist' && path.includes('allowlist'))
        const found = reported(section, { servers })
        expect(found).to.have.length(isWrong ? 1 : 0)
        if (isWrong) expect(found[0]).to.include(message.replace('PATH', path))
      }
      expect(reported({ limits: { [pattern]: 1 } }, { servers })).to.have.length(where === 'both' ? 1 : 0)
    })
  }

  it('are not checked without targets, or for one command of several, and a note says which', () => {
    const section = { allowlist: ['flies/read', 'files/*', '*'], denylist: ['files/drop'] }
    const note =
      'note lists.allowlist[0]: the policy has no targets, so the names of servers in patterns are not checked: flies, files'
    expect(reported(section, {})).to.deep.equal([note])
    expect(reported(section, { servers: ['files'], isForSeveral: true })).to.deep.equal([note])
    expect(reported({ allowlist: ['*'] }, {})).to.deep.equal([])
  })
})
