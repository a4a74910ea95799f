import { sha256Hex } from '@svc/core/json'
import { PolicyError } from '@svc/core/policy'
import { expect } from 'chai'
import { z } from 'zod'
import { accepted, audit, authn, limits, load, loadLayers, mistakesIn, plugin, printed } from './policies.js'

const base = 'tenant: acme\naudit: {dir: log}\n'

describe('loading a policy', () => {
  it('returns the host part, the sections with their defaults, and the plugins outermost first', () => {
    const policy = accepted(load(`${base}limits: {mode: observe}\nport: 80\n`))
    expect(policy.host).to.deep.equal({ tenant: 'acme', port: 80, sec0Dir: '.svc', plugins: [] })
    expect(policy.plugins.map(({ name }) => name)).to.deep.equal(['audit', 'authn', 'limits'])
    expect(policy.sections.get('audit')).to.deep.equal({ dir: 'log', retentionDays: 30, fsync: true })
    expect(policy.sections.get('limits')).to.deep.equal({ mode: 'observe' })
  })

  it('runs a stage whose schema accepts an absent section on its defaults, and warns that its section is absent', () => {
    const policy = accepted(load(base))
    expect(policy.sections.get('authn')).to.deep.equal({ allowUnauthenticated: false })
    expect(policy.warnings).to.have.length(1)
    expect(policy.warnings[0]).to.deep.equal({
      severity: 'warning',
      file: 'p.yaml',
      line: 1,
      column: 1,
      path: 'authn',
      message: 'callers cannot be distinguished; set authn.oidc',
    })
  })

  it('omits the stage of an optional section that is absent', () => {
    expect(accepted(load(base)).plugins.map(({ name }) => name)).to.deep.equal(['audit', 'authn'])
  })

  it('reports all mistakes at once, in the order of the text', () => {
    const text = [
      'port: 70000',
      'audit:',
      '  gatewayname: g',
      '  retention_days: long',
      'authn:',
      '  oidc: {issuer: nowhere}',
      'limts: {}',
    ].join('\n')
    expect(mistakesIn(text)).to.deep.equal([
      'p.yaml:1:1 tenant: missing; accepted is a string that is not empty',
      'p.yaml:1:1 port: 70000 is given; accepted is at most 65535',
      'p.yaml:2:1 audit.dir: missing; accepted is a string that is not empty',
      'p.yaml:3:3 audit.gatewayname: unknown key; did you mean "gatewayName"? known keys: dir, gatewayName, retentionDays, fsync, append',
      'p.yaml:4:3 audit.retention_days: a string is given; accepted is a whole number of at least 1',
      'p.yaml:6:3 authn.oidc.jwks_uri: missing; accepted is a URL',
      'p.yaml:6:10 authn.oidc.issuer: not accepted; accepted is a URL',
      'p.yaml:7:1 limts: unknown section; did you mean "limits"? known keys: tenant, port, sec0Dir, plugins, pipeline, audit, authn, limits',
    ])
  })

  it('refuses a policy without a required section', () => {
    expect(mistakesIn('tenant: acme\n')).to.deep.equal([
      'p.yaml:1:1 audit: the section "audit" is missing; every policy needs it',
    ])
  })

  it('reads an empty text as an empty mapping', () => {
    expect(mistakesIn('')).to.have.length(2)
    expect(mistakesIn('# nothing\n')[0]).to.equal(
      'p.yaml:1:1 tenant: missing; accepted is a string that is not empty',
    )
  })

  it('joins the mistakes into the message of a PolicyError', () => {
    const result = load('port: x')
    expect(result.ok).to.equal(false)
    if (!result.ok) expect(new PolicyError(result.mistakes).message).to.equal(printed(result).join('\n'))
  })
})

describe('spellings of keys', () => {
  it('reads snake_case and camelCase alike', () => {
    const policy = accepted(load(`${base}sec0_dir: here\nauthn: {allow_unauthenticated: true}\n`))
    expect(policy.host.sec0Dir).to.equal('here')
    expect(policy.sections.get('authn')).to.deep.equal({ allowUnauthenticated: true })
    const limited = accepted(load(`${base}limits: {perTool: {a_b: {callsPerDay: 3}}}\n`))
    expect(limited.sections.get('limits')).to.deep.equal({ per_tool: { a_b: { calls_per_day: 3 } } })
  })

  it('refuses both spellings of one key', () => {
    expect(mistakesIn(`${base}limits:\n  per_tool: {}\n  perTool: {}\n`)).to.deep.equal([
      'p.yaml:5:3 limits.perTool: given as "per_tool" too; both spell the same key, give one',
    ])
    expect(mistakesIn(`${base}sec0Dir: a\nsec0_dir: b\n`)).to.deep.equal([
      'p.yaml:4:1 sec0_dir: given as "sec0Dir" too; both spell the same key, give one',
    ])
  })

  it('reports the key as the author wrote it', () => {
    expect(mistakesIn(`${base}limits: {perTool: {"mcp://a/b@1": {callsPerDay: -1}}}\n`)).to.deep.equal([
      'p.yaml:3:36 limits.perTool["mcp://a/b@1"].callsPerDay: -1 is given; accepted is at least 0',
    ])
  })

  it('does not change the keys of a map', () => {
    const policy = accepted(
      load(`${base}limits: {per_tool: {some_tool: {calls_per_day: 1}, someTool: {calls_per_day: 2}}}`),
    )
    expect(policy.sections.get('limits')).to.deep.equal({
      per_tool: { some_tool: { calls_per_day: 1 }, someTool: { calls_per_day: 2 } },
    })
  })
})

describe('layers', () => {
  const options = { file: 'options', object: { tenant: 'code', audit: { dir: 'a', fsync: false } } }

  it("replaces an earlier layer's section as a whole", () => {
    const policy = accepted(loadLayers([options, { file: 'p.yaml', text: 'audit: {dir: b}' }]))
    expect(policy.host.tenant).to.equal('code')
    expect(policy.sections.get('audit')).to.deep.equal({ dir: 'b', retentionDays: 30, fsync: true })
  })

  it('names the layer of a mistake, without a position for code', () => {
    const wrong = { file: 'options', object: { tenant: 'code', audit: { dir: 4 } } }
    expect(printed(loadLayers([wrong]))).to.deep.equal([
      'options audit.dir: 4 is given; accepted is a string that is not empty',
    ])
  })

  it('passes functions and instances through unchanged', () => {
    class Store {}
    const append = () => undefined
    const adapter = new Store()
    const literal = { take: () => 1, inner: { self: {} } }
    literal.inner.self = literal
    for (const given of [adapter, literal]) {
      const object = { tenant: 't', audit: { dir: 'a', append }, limits: { adapter: given } }
      const { sections } = accepted(loadLayers([{ file: 'options', object }]))
      expect((sections.get('audit') as { append: unknown }).append).to.equal(append)
      expect((sections.get('limits') as { adapter: unknown }).adapter).to.equal(given)
    }
  })

  it('hashes the policy: the bytes of a text, the canonical JSON of an object, neither for options', () => {
    const text = accepted(loadLayers([options, { file: 'p.yaml', text: 'audit: {dir: b}' }])).sha256
    expect(text).to.equal(sha256Hex('audit: {dir: b}'))
    const one = accepted(
      loadLayers([{ file: 'policy', object: { tenant: 'x', audit: { dir: 'a', fsync: true } } }]),
    )
    const two = accepted(
      loadLayers([{ file: 'policy', object: { audit: { fsync: true, dir: 'a' }, tenant: 'x' } }]),
    )
    expect(one.sha256).to.equal(two.sha256).and.not.equal(null)
    expect(accepted(loadLayers([options])).sha256).to.equal(null)
  })
})

describe('security.ap2', () => {
  const security = plugin('security', z.strictObject({ level: z.int().optional() }))
  const ap2 = plugin('ap2', z.strictObject({ enabled: z.boolean() }))
  const sections = {
    plugins: [audit, authn, limits, security, ap2],
    nested: { ap2: 'security' },
  }

  it('is the section ap2', () => {
    const policy = accepted(load(`${base}security: {level: 2, ap2: {enabled: true}}`, sections))
    expect(policy.sections.get('ap2')).to.deep.equal({ enabled: true })
    expect(policy.sections.get('security')).to.deep.equal({ level: 2 })
  })

  it('keeps its name in mistakes', () => {
    expect(mistakesIn(`${base}security: {ap2: {enabled: 3}}`, sections)).to.deep.equal([
      'p.yaml:3:18 security.ap2.enabled: 3 is given; accepted is true or false',
    ])
  })

  it('must not be given beside ap2', () => {
    expect(
      mistakesIn(`${base}ap2: {enabled: true}\nsecurity: {ap2: {enabled: true}}`, sections),
    ).to.deep.equal(['p.yaml:4:12 security.ap2: given as "ap2" too; both are the same section, give one'])
  })
})
