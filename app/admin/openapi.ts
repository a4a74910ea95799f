// The OpenAPI document of the admin API, made from the operations.
import { z } from 'zod'
import { type AccessLevel, type Operation, operation } from './operation.js'

const accessTexts: Record<AccessLevel, string> = {
  'signed-in': 'Every client that is signed in.',
  reader: 'Clients with a role in admin.roles, and members of approval sets; each gets what is theirs.',
  metrics: 'Viewers, auditors and operators.',
  auditor: 'Auditors and operators.',
  operator: 'Operators.',
}

/** `all` returns every operation, this one included. */
export function openApiOperation(all: () => readonly Operation[]): Operation {
  return operation({
    method: 'GET',
    path: '/api/openapi.json',
    name: 'read_openapi',
    summary: 'Returns this document.',
    access: 'signed-in',
    isUnrecorded: true,
    response: z.looseObject({ openapi: z.string(), paths: z.record(z.string(), z.unknown()) }),
    run: async () => openApiOf(all()),
  })
}

export function openApiOf(operations: readonly Operation[]): object {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const one of operations) {
    const path = one.path.replace(':id', '{id}')
    paths[path] = { ...paths[path], [one.method.toLowerCase()]: describe(one) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'svc admin API', version: '1', description: 'See docs/admin.md.' },
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: { Error: errorSchema },
    },
  }
}

function describe({ name, summary, access, path, query, body, response }: Operation): object {
  const parameters = [
    ...(path.includes(':id') ? [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }] : []),
    ...parametersOf(query),
  ]
  return {
    operationId: name,
    summary,
    description: `For: ${accessTexts[access]}`,
    'x-svc-access': access,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: schemaOf(body, 'input') } },
          },
        }),
    responses: {
      200: {
        description: 'The result.',
        content: contentOf(response),
      },
      default: {
        description: 'A refusal.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    },
  }
}

function contentOf(response: Operation['response']): object {
  if (response === 'text') return { 'text/plain': { schema: { type: 'string' } } }
  if (response instanceof z.ZodType) return { 'application/json': { schema: schemaOf(response, 'output') } }
  const events = Object.entries(response).map(([event, schema]) => [event, schemaOf(schema, 'output')])
  return { 'text/event-stream': { schema: { type: 'string' }, 'x-svc-events': Object.fromEntries(events) } }
}

function parametersOf(query: z.ZodType | undefined): object[] {
  if (query === undefined) return []
  const { properties = {}, required = [] } = schemaOf(query, 'input') as {
    properties?: Record<string, object>
    required?: string[]
  }
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    ...(required.includes(name) ? { required: true } : {}),
    schema,
  }))
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest
}

const errorSchema = {
  type: 'object',
  required: ['error', 'message', 'trace_id'],
  properties: {
    error: { type: 'string', description: 'A code of docs/reference/errors.md.' },
    message: { type: 'string' },
    denial_reason: { type: 'string' },
    trace_id: { type: 'string' },
  },
}
