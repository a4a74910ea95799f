// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what policies write
import { expect } from 'chai'
import { z } from 'zod'
import { accepted, load, mistakesIn, plugin } from './policies.js'

const base = 'audit: {dir: log}\n'

describe('values from the environment', () => {
  it('replace a whole string or parts of one', () => {
    const env = { NAME: 'acme', A: 'one', B: 'two' }
    const policy = accepted(
      load('tenant: ${env:NAME}\naudit: {dir: "/var/${env:A}/${env:B}", gatewayName: "$NAME ${NAME}"}', {
        env,
      }),
    )
    expect(policy.host.tenant).to.equal('acme')
    expect(policy.sections.get('audit')).to.include({ dir: '/var/one/two', gatewayName: '$NAME ${NAME}' })
  })

  it('stay text unless the schema accepts only a number or a boolean', () => {
    const env = { TENANT: '7', PORT: '8080', SYNC: 'false' }
    const text = 'tenant: ${env:TENANT}\nport: ${env:PORT}\naudit: {dir: "${env:PORT}", fsync: "${env:SYNC}"}'
    const policy = accepted(load(text, { env }))
    expect(policy.host).to.include({ tenant: '7', port: 8080 })
    expect(policy.sections.get('audit')).to.include({ dir: '8080', fsync: false })
  })

  it('are not substituted again', () => {
    const env = { A: '${env:B}', B: 'b' }
    expect(accepted(load(`tenant: \${env:A}\n${base}`, { env })).host.tenant).to.equal('${env:B}')
  })

  it('never come from inherited properties', () => {
    expect(mistakesIn(`tenant: \${env:constructor}\n${base}`)).to.deep.equal([
      'p.yaml:1:1 tenant: the environment variable constructor is not set; set it, or write the value here',
    ])
  })

  it('may be empty, which differs from unset', () => {
    expect(mistakesIn(`tenant: \${env:A}\n${base}`, { env: { A: '' } })).to.deep.equal([
      'p.yaml:1:1 tenant: empty; accepted is a string that is not empty',
    ])
  })

  it('are reported for every missing variable, at its position', () => {
    expect(
      mistakesIn('tenant: "${env:A}-${env:B}"\naudit:\n  dir: ${env:C}\n', { env: { A: 'set' } }),
    ).to.deep.equal([
      'p.yaml:1:1 tenant: the environment variable B is not set; set it, or write the value here',
      'p.yaml:3:3 audit.dir: the environment variable C is not set; set it, or write the value here',
    ])
  })

  it('are removed from messages of a schema', () => {
    const loud = plugin(
      'loud',
      z
        .strictObject({ key: z.string().refine(() => false, { error: ({ input }) => `bad key ${input}` }) })
        .superRefine((section, context) =>
          context.addIssue({ code: 'custom', message: `saw ${section.key}.` }),
        ),
    )
    const env = { KEY: 's3cr3t+value' }
    const options = { env, plugins: [loud] }
    for (const key of ['${env:KEY}', 'a-${env:KEY}-b']) {
      const mistakes = mistakesIn(`tenant: t\nloud: {key: "${key}"}`, options)
      expect(mistakes).to.deep.equal([`p.yaml:2:1 loud: saw ${key}.`, `p.yaml:2:8 loud.key: bad key ${key}`])
    }
  })

  it('cause no further mistakes if they are missing', () => {
    expect(
      mistakesIn('tenant: acme\naudit: {dir: a}\nauthn: {oidc: {issuer: "${env:I}", jwks_uri: "http://x/"}}'),
    ).to.deep.equal([
      'p.yaml:3:16 authn.oidc.issuer: the environment variable I is not set; set it, or write the value here',
    ])
  })
})
