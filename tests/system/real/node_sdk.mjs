// The OpenAI SDK for JavaScript: lists models, chats and streams, and prints what it got as one JSON object.
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, baseURL, model, question] = process.argv.slice(2);
const resolve = createRequire(path.join(folder, 'x.js')).resolve;
const { default: OpenAI } = await import(pathToFileURL(resolve('openai')).href);
const client = new OpenAI({ baseURL, apiKey: 'not-needed', maxRetries: 0, timeout: 20000 });
const messages = [{ role: 'user', content: question }];

const models = (await client.models.list()).data.map((one) => one.id);
const chat = (await client.chat.completions.create({ model, messages, temperature: 0 })).choices[0].message.content;
let stream = '', chunks = 0;
for await (const chunk of await client.chat.completions.create({ model, messages, temperature: 0, stream: true })) {
  stream += chunk.choices[0]?.delta?.content ?? '';
  chunks += 1;
}
let refused = null;
try {
  await client.chat.completions.create({ model: 'nope', messages });
} catch (error) {
  refused = { status: error.status, code: error.code };
}
console.log(JSON.stringify({ models, chat, stream, chunks, refused }));
