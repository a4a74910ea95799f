// docs/runtime.openapi.yaml against the schemas that read answers and the requests that really leave.
import { readFileSync } from 'node:fs'
import { answerSchema, outputRuleSchema } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { parse } from 'yaml'
import { z } from 'zod'
import { startRig } from './rig.js'

type Schema = Record<string, unknown>

interface Document {
  readonly openapi: string
  readonly info: { readonly version: string }
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

const document = parse(
  readFileSync(new URL('../../../../docs/runtime.openapi.yaml', import.meta.url), 'utf8'),
) as Document
const { schemas } = document.components

/** The schema with the others in place of references to them, and without words for people. */
function whole(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(whole)
  if (typeof schema !== 'object' || schema === null) return schema
  const { $ref, description: _words, ...rest } = schema as Schema
  if (typeof $ref === 'string') return whole(schemas[$ref.slice($ref.lastIndexOf('/') + 1)])
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, whole(value)]))
}

/** As the reader of answers describes itself. */
function read(schema: z.ZodType): unknown {
  const { $schema: _draft, ...rest } = z.toJSONSchema(schema) as Schema
  return withoutNames(rest)
}

/** `propertyNames: string` says what JSON is anyway. */
function withoutNames(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutNames)
  if (typeof schema !== 'object' || schema === null) return schema
  const { propertyNames: _names, ...rest } = schema as Schema
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, withoutNames(value)]))
}

describe('docs/runtime.openapi.yaml', () => {
  it('is OpenAPI 3.1, and of the version that the gateway speaks', () => {
    expect(document.openapi).to.equal('3.1.0')
    expect(schemas['EvaluateRequest']).to.have.nested.property(
      'properties.protocolVersion.const',
      document.info.version,
    )
  })

  it('holds every schema that it refers to', () => {
    const named = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
      ([, name]) => name ?? '',
    )
    expect(Object.keys(schemas)).to.include.members(named)
  })

  it('describes answers exactly as they are read', () => {
    expect(whole(schemas['EvaluateResponse'])).to.deep.equal(read(answerSchema))
  })

  it('describes the params of redact_output exactly as they are read', () => {
    expect(whole(schemas['RedactOutput'])).to.deep.equal(read(outputRuleSchema))
  })

  it('describes the requests that leave, the fullest and the least', async () => {
    const request = z.fromJSONSchema(whole(schemas['EvaluateRequest']) as z.core.JSONSchema.JSONSchema)
    await using rig = await startRig({
      remote: { includeArguments: true },
      options: {
        entitlements: {
          default_plan: 'p',
          plans: { p: {} },
          tenants: { acme: { plan: 'p', allowlist: ['files/echo'] } },
        },
      },
    })
    await rig.call({ a: 1 })
    await rig.gateway.invoke('/mcp/files/other@1', {}, { 'x-node-id': 'n', 'x-agent-ref': 'r' })
    expect(rig.asked).to.have.length(2)
    for (const { body } of rig.asked) {
      expect(request.safeParse(JSON.parse(body)).error?.issues ?? []).to.deep.equal([])
    }
    const wrong = { ...(JSON.parse(rig.asked[0]?.body ?? '') as object), protocolVersion: '1' }
    expect(request.safeParse(wrong).success).to.equal(false)
  })
})
