// The OpenAPI document of the admin API, by which the tests judge each JSON response that they get.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

interface Content {
  readonly schema: object
  readonly 'x-svc-events'?: Readonly<Record<string, object>>
}

export interface OpenApi {
  readonly paths: Record<
    string,
    Record<string, { responses: Record<string, { content: Record<string, Content> }> }>
  >
  readonly components: { readonly schemas: { readonly Error: object } }
}

const path = fileURLToPath(new URL('../../../../docs/reference/admin-api.openapi.json', import.meta.url))
const ajv = new Ajv2020({ strict: false, validateFormats: false })
const compiled = new Map<string, ValidateFunction>()
let read: OpenApi | undefined

/** The committed document, which `npm run check` holds to the operations. */
function apiDocument(): OpenApi {
  read ??= JSON.parse(readFileSync(path, 'utf8')) as OpenApi
  return read
}

/** Why the JSON does not agree with the document; undefined if it does, or the document has no such operation. */
export function disagreement(
  { method = 'GET', path }: { readonly method?: string | undefined; readonly path: string },
  status: number,
  text: string,
): string | undefined {
  const { paths, components } = apiDocument()
  const [plain = ''] = path.split('?')
  const known = Object.hasOwn(paths, plain) ? plain : plainPathOf(plain)
  const operation = paths[known]?.[method.toLowerCase()]
  const schema = operation?.responses['200']?.content['application/json']?.schema
  if (operation === undefined || (status === 200 && schema === undefined)) return undefined
  return status === 200 && schema !== undefined
    ? invalid(`${method} ${known}`, schema, JSON.parse(text))
    : invalid('Error', components.schemas.Error, JSON.parse(text))
}

/** Why the event of the stream does not agree with the document; undefined if it does. */
export function eventDisagreement(event: string, data: unknown): string | undefined {
  const { content } = apiDocument().paths['/api/events']?.['get']?.responses['200'] ?? {}
  const schema = content?.['text/event-stream']?.['x-svc-events']?.[event]
  return schema === undefined
    ? `the event ${event} is not documented`
    : invalid(`event ${event}`, schema, data)
}

function invalid(name: string, schema: object, value: unknown): string | undefined {
  const validate = compiled.get(name) ?? ajv.compile(schema)
  compiled.set(name, validate)
  if (validate(value)) return undefined
  return `${name}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`
}

/** Of an operation on one object, whose id is the third segment. */
function plainPathOf(plain: string): string {
  return plain.replace(/^(\/api\/\w+\/)[^/]+/, '$1{id}')
}
