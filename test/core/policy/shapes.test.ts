// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what policies write
import { keysReference, policySchema } from '@svc/core/policy'
import { expect } from 'chai'
import { z } from 'zod'
import { accepted, load, loadLayers, mistakesIn, plugin } from './policies.js'

/** Loads a section `own` of the given schema out of YAML. */
function own(schema: z.ZodType, yaml: string, env: Record<string, string> = {}) {
  const options = { plugins: [plugin('own', schema)], env }
  const text = `tenant: t\nown: ${yaml}\n`
  return {
    value: () => accepted(load(text, options)).sections.get('own'),
    mistakes: () => mistakesIn(text, options).map((line) => line.replace('p.yaml:', '')),
  }
}

describe('a section whose schema', () => {
  describe('is a union of mappings', () => {
    const store = z.union([
      z.strictObject({ kind: z.literal('disk'), base_dir: z.string() }),
      z.strictObject({ kind: z.literal('net'), maxWait: z.int() }),
    ])
    const tagged = z.discriminatedUnion('kind', store.options)

    it('is validated by the most similar mapping, in either spelling', () => {
      for (const schema of [store, tagged]) {
        expect(own(schema, '{kind: disk, baseDir: a}').value()).to.deep.equal({ kind: 'disk', base_dir: 'a' })
        expect(own(schema, '{kind: net, max_wait: 3}').value()).to.deep.equal({ kind: 'net', maxWait: 3 })
        expect(own(schema, '{kind: net, max_wait: long}').mistakes()).to.deep.equal([
          '2:18 own.max_wait: a string is given; accepted is a whole number',
        ])
        expect(own(schema, '{kind: net, max_wait: 3, basedir: a}').mistakes()).to.deep.equal([
          '2:31 own.basedir: unknown key; known keys: kind, maxWait',
        ])
      }
    })

    it('lists the accepted forms if a scalar is given', () => {
      const either = z.strictObject({ size: z.union([z.int(), z.strictObject({ most: z.int() })]) })
      expect(own(either, '{size: big}').mistakes()).to.deep.equal([
        '2:7 own.size: a string is given; accepted is a whole number or a mapping with the keys most',
      ])
      expect(own(either, '{size: {mots: 3}}').mistakes()).to.deep.equal([
        '2:7 own.size.most: missing; accepted is a whole number',
        '2:14 own.size.mots: unknown key; did you mean "most"? known keys: most',
      ])
    })
  })

  it('has defaults, pipes and transforms is read in both spellings below them', () => {
    const schema = z
      .strictObject({
        inner: z
          .strictObject({ max_wait: z.int().default(5) })
          .prefault({})
          .readonly(),
      })
      .transform(({ inner }) => inner.max_wait * 2)
    expect(own(schema, '{inner: {maxWait: 4}}').value()).to.equal(8)
    expect(own(schema, '{}').value()).to.equal(10)
    const piped = z.preprocess((value) => value, z.strictObject({ max_wait: z.int() }))
    expect(own(piped, '{maxWait: 4}').value()).to.deep.equal({ max_wait: 4 })
  })

  it('refers to itself is read to the depth of the policy', () => {
    interface Rule {
      only_when?: Rule[] | undefined
    }
    const rule: z.ZodType<Rule> = z.lazy(() => z.strictObject({ only_when: z.array(rule).optional() }))
    expect(own(rule, '{onlyWhen: [{onlyWhen: []}, {onlywhen: []}]}').mistakes()).to.deep.equal([
      '2:35 own.onlyWhen[1].onlywhen: unknown key; did you mean "only_when"? known keys: only_when',
    ])
  })

  it('accepts unlisted keys keeps them as written', () => {
    const schema = z.looseObject({ known_key: z.int() })
    expect(own(schema, '{knownKey: 1, otherKey: 2}').value()).to.deep.equal({ known_key: 1, otherKey: 2 })
    const typed = z.object({ known_key: z.int() }).catchall(z.strictObject({ max_wait: z.int() }))
    expect(own(typed, '{knownKey: 1, other: {maxWait: 2}}').value()).to.deep.equal({
      known_key: 1,
      other: { max_wait: 2 },
    })
  })

  it('would strip unlisted keys has them reported', () => {
    expect(own(z.object({ known: z.int() }), '{known: 1, other: 2}').mistakes()).to.deep.equal([
      '2:17 own.other: unknown key; known keys: known',
    ])
  })

  it('is a tuple validates each entry', () => {
    const schema = z.strictObject({ pair: z.tuple([z.string(), z.int()]) })
    expect(own(schema, '{pair: [a, 1]}').value()).to.deep.equal({ pair: ['a', 1] })
    expect(own(schema, '{pair: [a, b]}').mistakes()).to.deep.equal([
      '2:17 own.pair[1]: a string is given; accepted is a whole number',
    ])
  })

  it('does not describe a part gets it with the environment substituted', () => {
    const schema = z.strictObject({ labels: z.record(z.string(), z.unknown()), any: z.unknown() })
    const yaml = '{labels: {a_b: ["${env:A}", {c: "x${env:A}"}]}, any: {d: ["${env:A}"], e: 1}}'
    expect(own(schema, yaml, { A: 'v' }).value()).to.deep.equal({
      labels: { a_b: ['v', { c: 'xv' }] },
      any: { d: ['v'], e: 1 },
    })
    expect(own(schema, '{labels: {}, any: {d: ["${env:A}"]}}').mistakes()).to.deep.equal([
      '2:29 own.any.d[0]: the environment variable A is not set; set it, or write the value here',
    ])
  })

  it('contains lists and mappings of code reads them like a file', () => {
    const schema = z.strictObject({ rules: z.array(z.strictObject({ max_wait: z.int() })) })
    const object = { tenant: 't', own: { rules: [{ maxWait: 1 }, { max_wait: 2 }], gone: undefined } }
    const options = { plugins: [plugin('own', schema)] }
    const policy = accepted(loadLayers([{ file: 'options', object }], options))
    expect(policy.sections.get('own')).to.deep.equal({ rules: [{ max_wait: 1 }, { max_wait: 2 }] })
  })

  it('has messages of its own keeps them, also for missing values', () => {
    const schema = z.strictObject({
      url: z.url({ error: 'must be an https URL' }),
      word: z.string().regex(/^a/, 'must begin with a'),
    })
    expect(own(schema, '{word: b}').mistakes()).to.deep.equal([
      '2:1 own.url: missing; must be an https URL',
      '2:7 own.word: must begin with a',
    ])
  })

  it('has bounds reports them', () => {
    const schema = z.strictObject({
      few: z.array(z.int()).max(1).optional(),
      some: z.array(z.int()).min(1).optional(),
      short: z.string().max(2).optional(),
      half: z.number().gt(0).lt(1).optional(),
      even: z.int().multipleOf(2).optional(),
      odd_names: z.record(z.string().regex(/^x/), z.int()).optional(),
    })
    const yaml = '{few: [1, 2], some: [], short: abc, half: 1, even: 3, odd_names: {y: 1}}'
    expect(own(schema, yaml).mistakes()).to.deep.equal([
      '2:7 own.few: too large; accepted is at most 1 entries',
      '2:20 own.some: empty; accepted is a list of at least one entry',
      '2:30 own.short: too large; accepted is at most 2 characters',
      '2:42 own.half: 1 is given; accepted is below 1',
      '2:51 own.even: not accepted; accepted is a multiple of 2',
      '2:72 own.odd_names.y: this name is not accepted; accepted is a string that matches ^x',
    ])
  })
})

describe('the output of a schema', () => {
  const schema = z
    .strictObject({
      max_wait: z.int().min(0).default(5).describe('How long.'),
      names: z.record(z.string(), z.strictObject({ on: z.boolean() })).describe('By name.'),
      adapter: z.union([z.enum(['memory']), z.custom(() => true).describe('an adapter')]).optional(),
    })
    .describe('A section.')

  it('is a row per key in the reference', () => {
    const rows = keysReference(schema)
    expect(rows.map(({ path }) => path)).to.deep.equal([
      'max_wait',
      'names',
      'names.<name>',
      'names.<name>.on',
      'adapter',
    ])
    expect(rows[0]).to.deep.equal({
      path: 'max_wait',
      accepts: 'a whole number of at least 0',
      isRequired: false,
      default: '5',
      description: 'How long.',
    })
    expect(rows[1]).to.include({ isRequired: true, accepts: 'a mapping' })
  })

  it('is a JSON Schema with references to the environment and without values that only code can pass', () => {
    const whole = policySchema(z.strictObject({ tenant: z.string() }), [plugin('own', schema)])
    const { own: section } = whole.properties as Record<string, z.core.JSONSchema.BaseSchema>
    expect(section?.properties).to.have.all.keys('max_wait', 'maxWait', 'names', 'adapter')
    const adapter = section?.properties?.['adapter'] as z.core.JSONSchema.BaseSchema
    expect(JSON.stringify(adapter)).to.include('memory').and.not.include('an adapter')
    expect(JSON.stringify(section?.properties?.['maxWait'])).to.include('env:')
    expect(whole.required).to.deep.equal(['tenant'])
  })
})
