// Compares docs/runtime.openapi.yaml with the response schemas and with requests that the gateway sends.
import { readFileSync } from 'node:fs'
import { outputRuleSchema, responseSchema } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { parse } from 'yaml'
import { z } from 'zod'
import { startSetup } from './gateway.js'

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

/** The schema with its references resolved and without descriptions. */
function resolved(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(resolved)
  if (typeof schema !== 'object' || schema === null) return schema
  const { $ref, description: _description, ...rest } = schema as Schema
  if (typeof $ref === 'string') return resolved(schemas[$ref.slice($ref.lastIndexOf('/') + 1)])
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, resolved(value)]))
}

/** The JSON Schema of a zod schema. */
function jsonSchema(schema: z.ZodType): unknown {
  const { $schema: _draft, ...rest } = z.toJSONSchema(schema) as Schema
  return withoutPropertyNames(rest)
}

/** `propertyNames: string` is redundant in JSON. */
function withoutPropertyNames(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutPropertyNames)
  if (typeof schema !== 'object' || schema === null) return schema
  const { propertyNames: _names, ...rest } = schema as Schema
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, withoutPropertyNames(value)]))
}

describe('docs/runtime.openapi.yaml', () => {
  it('is OpenAPI 3.1 and has the protocol version of the gateway', () => {
    expect(document.openapi).to.equal('3.1.0')
    expect(schemas['EvaluateRequest']).to.have.nested.property(
      'properties.protocolVersion.const',
      document.info.version,
    )
  })

  it('defines every schema that it references', () => {
    const referenced = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
      ([, name]) => name ?? '',
    )
    expect(Object.keys(schemas)).to.include.members(referenced)
  })

  it('has the response schema of the gateway', () => {
    expect(resolved(schemas['EvaluateResponse'])).to.deep.equal(jsonSchema(responseSchema))
  })

  it('has the params of redact_output that the gateway accepts', () => {
    expect(resolved(schemas['RedactOutput'])).to.deep.equal(jsonSchema(outputRuleSchema))
  })

  it('accepts requests of the gateway, with and without optional members', async () => {
    const request = z.fromJSONSchema(resolved(schemas['EvaluateRequest']) as z.core.JSONSchema.JSONSchema)
    await using setup = await startSetup({
      remote: { includeArguments: true },
      gateway: {
        entitlements: {
          default_plan: 'p',
          plans: { p: {} },
          tenants: { acme: { plan: 'p', allowlist: ['files/echo'] } },
        },
      },
    })
    await setup.call({ a: 1 })
    await setup.gateway.invoke('/mcp/files/other@1', {}, { 'x-node-id': 'n', 'x-agent-ref': 'r' })
    expect(setup.runtimeRequests).to.have.length(2)
    for (const { body } of setup.runtimeRequests) {
      expect(request.safeParse(JSON.parse(body)).error?.issues ?? []).to.deep.equal([])
    }
    const invalid = { ...(JSON.parse(setup.runtimeRequests[0]?.body ?? '') as object), protocolVersion: '1' }
    expect(request.safeParse(invalid).success).to.equal(false)
  })
})
